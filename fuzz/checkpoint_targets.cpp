// SPDX-License-Identifier: Apache-2.0
#include "targets.h"

#include <string>

#include "checkpoint/formats/folder_names.h"
#include "checkpoint/formats/hash.h"
#include "checkpoint/formats/manifest_json.h"
#include "checkpoint/formats/safetensors_header.h"
#include "checkpoint/formats/scalar_json.h"
#include "checkpoint/torch/pickle_parse.h"
#include "checkpoint/torch/zip_parse.h"

namespace lockstep::fuzz {
namespace {

using namespace lockstep::checkpoint;  // NOLINT(google-build-using-namespace): this file calls nothing else

constexpr std::uint64_t kMostUnpacked = 1 << 20;  // larger ones would only cost time

volatile unsigned checkpoint_bytes_read = 0;

// Reads every byte, so that the sanitizer catches a wrong range.
void read_all(std::string_view bytes) {
  unsigned total = 0;
  for (const char byte : bytes) total += static_cast<unsigned char>(byte);
  checkpoint_bytes_read = total;
}

/// Counts the values below the root the way the torch file reader walks them.
std::uint64_t count_values(const Pickle& pickle, PickleId id, int depth) {
  require(depth <= kPickleMostDepth && id < pickle.nodes.size());
  const PickleNode& node = pickle.nodes[id];
  require(node.kind != PickleKind::kStorage && node.kind != PickleKind::kName);
  if (node.kind == PickleKind::kTensor) {
    require(static_cast<std::uint64_t>(node.integer) < pickle.tensors.size());
    const PickleTensor& tensor = pickle.tensors[static_cast<std::size_t>(node.integer)];
    require(tensor.storage < pickle.storages.size() && tensor.sizes.size() == tensor.strides.size());
    const PickleStorage& storage = pickle.storages[tensor.storage];
    std::uint64_t last = static_cast<std::uint64_t>(tensor.offset);
    bool empty = false;
    for (std::size_t d = 0; d < tensor.sizes.size(); ++d) {
      require(tensor.sizes[d] >= 0 && tensor.strides[d] >= 0);
      empty = empty || tensor.sizes[d] == 0;
    }
    for (std::size_t d = 0; d < tensor.sizes.size() && !empty; ++d) {
      last += static_cast<std::uint64_t>(tensor.sizes[d] - 1) * static_cast<std::uint64_t>(tensor.strides[d]);
    }
    require(empty ? last <= storage.elements : last < storage.elements);
  }
  require(node.kind != PickleKind::kDict || node.items.size() % 2 == 0);
  std::uint64_t count = 1;
  for (const PickleId item : node.items) count += count_values(pickle, item, depth + 1);
  return count;
}

}  // namespace

void zip(std::string_view bytes) {
  const auto members = parse_zip(bytes);
  if (!members) return;
  std::uint64_t end = 0;
  for (const ZipMember& member : *members) {
    require(member.header >= end && member.offset >= member.header && member.offset <= bytes.size());
    require(member.stored <= bytes.size() - member.offset);
    end = member.offset + member.stored;
    require(!member.name.empty() && member.name.front() != '/');
    read_all(stored_bytes(bytes, member));
    if (member.bytes > kMostUnpacked) continue;
    (void)check_member(bytes, member);
    if (!member.deflated) continue;
    if (const auto unpacked = inflate_member(bytes, member, kMostUnpacked)) require(unpacked->size() == member.bytes);
  }
}

void pickle(std::string_view bytes) {
  const auto read = parse_pickle(bytes);
  if (read) require(count_values(*read, read->root, 1) <= kPickleMostValues);
}

void safetensors(std::string_view bytes) {
  const auto header = parse_safetensors_header(bytes);
  if (!header) return;
  std::uint64_t position = 0;
  for (const TensorEntry& entry : header->tensors) {
    require(entry.begin == position && entry.end >= entry.begin);
    position = entry.end;
    require(header->data_start + entry.end <= bytes.size());
    read_all(bytes.substr(header->data_start + entry.begin, entry.end - entry.begin));
    const auto size = tensor_bytes(entry.dtype, entry.shape);
    require(size && *size == entry.end - entry.begin);
  }
  require(header->data_start + position == bytes.size());
  for (const auto& [name, value] : header->metadata) {
    const auto scalar = scalar_from_json(value);
    if (scalar) (void)scalar_to_json(*scalar);
  }
}

void manifest(std::string_view bytes) {
  const std::string body(bytes);
  const std::string seal = "  \"manifest_xxh3_128\": \"" + digest_of(body).xxh3_128 + "\"\n}\n";
  const auto read = manifest_from_json(body + seal);
  if (!read) return;
  for (const auto& [name, digest] : read->files) require(is_plain_file_name(name));
  // Writing the manifest and reading it again must not change it.
  const auto again = manifest_from_json(manifest_to_json(*read));
  require(again && *again == *read);
}

}  // namespace lockstep::fuzz
