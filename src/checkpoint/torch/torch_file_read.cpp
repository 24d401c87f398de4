// SPDX-License-Identifier: Apache-2.0
// Reads the bytes of a .pth file into a tree of values: the zip file's members, the pickle, then its tensors.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "checkpoint/formats/read_file.h"
#include "checkpoint/formats/torch_types.h"
#include "checkpoint/torch/pickle_parse.h"
#include "checkpoint/torch/torch_file_bytes.h"
#include "checkpoint/torch/zip_parse.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/torch_file.h"

namespace lockstep {

namespace fs = std::filesystem;
using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

static_assert(std::endian::native == std::endian::little, "the storages of a torch file are little-endian");

namespace {

constexpr std::uint64_t kInflateSlack = 256U << 20U;
constexpr std::uint64_t kInflateRatio =
    64;  // limit on the ratio of unpacked to packed bytes; weights compress to half their size at best
constexpr std::uint64_t kShareRatio = 16;  // limit on how often each byte of a storage may occur in tensors
constexpr const char* kDamaged = "get the file again: it is damaged, or was crafted to look harmless";
constexpr const char* kResave =
    "in Python, if you trust the file: torch.save(torch.load(FILE, map_location='cpu'), NEW)";
constexpr const char* kStateDictsOnly =
    "only state dicts and plain values can be read; in Python, if you trust the file: torch.save(torch.load(FILE, "
    "map_location='cpu')['model'], NEW), with the key of its state dict";

DataError file_error(const std::string& file, const std::string& fault, const char* hint) {
  return DataError(fmt::format("{}: {}", file, fault), hint);
}

void refuse_other_formats(std::string_view head, const std::string& file) {
  if (is_zip(head)) return;
  if (head.starts_with("\x80\x02\x8a\x0a"))
    throw file_error(file, "written in the torch.save format used before PyTorch 1.6", kResave);
  throw file_error(file, "not a torch file: it does not begin like a zip file",
                   "pass a torch.save or .safetensors file");
}

/// An open file, with its members by their path below the common folder.
class TorchArchive {
 public:
  TorchArchive(const FileBytes& bytes, std::string file) : bytes_(bytes), file_(std::move(file)) { open(); }

  [[nodiscard]] DataError error(const std::string& fault, const char* hint) const {
    return file_error(file_, fault, hint);
  }
  [[nodiscard]] const ZipMember* find(const std::string& name) const {
    const auto found = members_.find(name);
    return found == members_.end() ? nullptr : &found->second;
  }
  /// Returns the member's bytes, unpacked and checked. Throws: DataError.
  [[nodiscard]] FileBytes read(const ZipMember& member);

 private:
  void open();

  FileBytes bytes_;
  std::string file_;
  std::map<std::string, ZipMember> members_;
  std::uint64_t inflated_ = 0;
};

void TorchArchive::open() {
  refuse_other_formats(bytes_.view().substr(0, 4), file_);
  auto members = parse_zip(bytes_.view());
  if (!members) throw error(members.error(), kDamaged);
  std::optional<std::string> root;
  for (const ZipMember& member : *members) {
    const std::size_t slash = member.name.find('/');
    if (slash == std::string::npos || member.name.substr(slash + 1) != "data.pkl") continue;
    if (root) throw error("it has two data.pkl files", kResave);
    root = member.name.substr(0, slash + 1);
  }
  if (!root) throw error("a zip file without data.pkl is not a torch file", "pass a torch.save or .safetensors file");
  for (ZipMember& member : *members) {
    if (!member.name.starts_with(*root)) continue;
    std::string name = member.name.substr(root->size());
    members_.emplace(std::move(name), std::move(member));
  }
  if (find("constants.pkl") != nullptr) throw error("a TorchScript program, which is code", kStateDictsOnly);
  if (const ZipMember* order = find("byteorder"); order != nullptr && read(*order).view() == "big") {
    throw error("its numbers are big-endian", kResave);
  }
}

FileBytes TorchArchive::read(const ZipMember& member) {
  const auto check = [&](const std::string& problem) {
    if (!problem.empty())
      throw error(fmt::format("'{}': {}", member.name, problem), "get the file again: it is damaged");
  };
  check(check_member(bytes_.view(), member));
  // Members that are not compressed share the file's buffer.
  if (!member.deflated) return {{bytes_.data, bytes_.data.get() + member.offset}, member.stored};
  inflated_ += member.bytes;
  if (const std::string problem = unpacked_problem(bytes_.size, inflated_); !problem.empty()) {
    throw error(problem, kResave);
  }
  auto unpacked = inflate_member(bytes_.view(), member, member.bytes);
  if (!unpacked) throw error(unpacked.error(), "get the file again: it is damaged");
  FileBytes bytes = allocate_bytes(unpacked->size());
  std::memcpy(bytes.data.get(), unpacked->data(), unpacked->size());
  return bytes;
}

/// Builds the values of a pickle that parse_pickle() has accepted.
class TorchTree {
 public:
  TorchTree(TorchArchive& archive, const Pickle& pickle) : archive_(archive), pickle_(pickle) {
    storages_.resize(pickle.storages.size());
    tensors_.resize(pickle.tensors.size());
    require_bounded();
  }

  TorchValue value(PickleId id);

 private:
  void require_bounded();
  at::Tensor tensor(std::size_t place);
  const at::Tensor& storage(std::size_t place, ElementType type);

  TorchArchive& archive_;
  const Pickle& pickle_;
  std::vector<at::Tensor> storages_;
  std::vector<at::Tensor> tensors_;
};

/// Limits the total size of the tensors. With zero strides and shared storages, a few bytes can describe large tensors,
/// and a copy of the tensors would need memory for their full size.
void TorchTree::require_bounded() {
  double stored = 0;
  double seen = 0;
  for (const PickleStorage& storage : pickle_.storages) {
    stored += static_cast<double>(storage.elements * (storage.untyped ? 1 : row_of(storage.type).bytes));
  }
  for (const PickleTensor& tensor : pickle_.tensors) {
    auto bytes = static_cast<double>(row_of(tensor.type).bytes);
    for (const std::int64_t size : tensor.sizes) bytes *= static_cast<double>(size);
    seen += bytes;
  }
  if (seen <= kShareRatio * stored + static_cast<double>(kInflateSlack)) return;
  throw archive_.error(
      fmt::format("its tensors would take {:.3g} bytes, but its storages have only {:.3g}", seen, stored),
      "if you trust the file, copy its tensors with .clone() in Python and save them again");
}

const at::Tensor& TorchTree::storage(std::size_t place, ElementType type) {
  at::Tensor& storage = storages_[place];
  if (storage.defined()) return storage;
  const PickleStorage& described = pickle_.storages[place];
  const std::uint64_t element = described.untyped ? 1 : row_of(type).bytes;
  const ZipMember* member = archive_.find("data/" + described.key);
  if (member == nullptr) throw archive_.error(fmt::format("storage '{}' is missing", described.key), kResave);
  if (member->bytes / element != described.elements || member->bytes % element != 0) {
    throw archive_.error(fmt::format("storage '{}' has {} bytes, which do not match its {} elements", described.key,
                                     member->bytes, described.elements),
                         "get the file again: it is damaged, or was crafted to look harmless");
  }
  FileBytes bytes = archive_.read(*member);
  if (type == ElementType::kBool) {
    for (std::size_t i = 0; i < bytes.size; ++i) {
      if (static_cast<unsigned char>(bytes.data.get()[i]) > 1) {
        throw archive_.error(fmt::format("element {} of storage '{}' is not a boolean", i, described.key), kResave);
      }
    }
  }
  const auto options = at::TensorOptions().dtype(scalar_type_of(type)).device(at::kCPU);
  const auto elements = static_cast<std::int64_t>(bytes.size / row_of(type).bytes);
  if (reinterpret_cast<std::uintptr_t>(bytes.data.get()) % row_of(type).bytes != 0) {
    storage = at::empty({elements}, options);
    std::memcpy(storage.data_ptr(), bytes.data.get(), static_cast<std::size_t>(elements) * row_of(type).bytes);
  } else {
    storage = at::from_blob(
        bytes.data.get(), {elements}, [keep = bytes.data](void*) {}, options);
  }
  return storage;
}

at::Tensor TorchTree::tensor(std::size_t place) {
  at::Tensor& made = tensors_[place];
  if (made.defined()) return made;
  const PickleTensor& described = pickle_.tensors[place];
  const at::Tensor& all = storage(described.storage, described.type);
  if (all.scalar_type() != scalar_type_of(described.type)) {
    throw archive_.error(fmt::format("storage '{}' with two types", pickle_.storages[described.storage].key), kResave);
  }
  made = all.as_strided(described.sizes, described.strides, described.offset);
  return made;
}

TorchValue TorchTree::value(PickleId id) {
  const PickleNode& node = pickle_.nodes[id];
  switch (node.kind) {
    case PickleKind::kBool:
      return {node.integer != 0};
    case PickleKind::kInt:
      return {node.integer};
    case PickleKind::kReal:
      return {node.real};
    case PickleKind::kText:
      return {node.text};
    case PickleKind::kTensor:
      return {tensor(static_cast<std::size_t>(node.integer))};
    case PickleKind::kList:
    case PickleKind::kTuple: {
      TorchList list;
      for (const PickleId item : node.items) list.push_back(value(item));
      return {std::move(list)};
    }
    case PickleKind::kDict: {
      TorchDict dict;
      for (std::size_t i = 0; i < node.items.size(); i += 2) {
        const PickleNode& key = pickle_.nodes[node.items[i]];
        const bool is_text = key.kind == PickleKind::kText;
        dict.emplace_back(is_text ? TorchKey(key.text) : TorchKey(key.integer), value(node.items[i + 1]));
      }
      return {std::move(dict)};
    }
    default:
      return {};
  }
}

}  // namespace

const TorchValue* TorchValue::find(std::string_view key) const {
  if (dict() == nullptr) return nullptr;
  for (const auto& [name, entry] : *dict()) {
    const auto* text = std::get_if<std::string>(&name);
    if (text != nullptr && *text == key) return &entry;
  }
  return nullptr;
}

std::string checkpoint::unpacked_problem(std::uint64_t file_bytes, std::uint64_t unpacked_bytes) {
  if (unpacked_bytes / kInflateRatio <= file_bytes + kInflateSlack / kInflateRatio) return "";
  return fmt::format("it unpacks from {} to {} or more", text::bytes(file_bytes), text::bytes(unpacked_bytes));
}

TorchValue checkpoint::torch_file_of(const FileBytes& file, const std::string& name) {
  TorchArchive archive(file, name);
  const FileBytes bytes = archive.read(*archive.find("data.pkl"));
  const auto pickle = parse_pickle(bytes.view());
  if (!pickle) throw archive.error(pickle.error(), kStateDictsOnly);
  return TorchTree(archive, *pickle).value(pickle->root);
}

FileBytes checkpoint::read_zip_file(FileSystem& files, const fs::path& path) {
  const auto file = files.open(path);
  std::string end(std::min<std::uint64_t>(kZipMostEnd, file->size()), '\0');
  file->read(file->size() - end.size(), end.data(), end.size());
  if (!has_zip_end(end)) throw file_error(path.string(), parse_zip(end).error(), kDamaged);
  return read_file(files, path);
}

TorchValue read_torch_file(FileSystem& files, const fs::path& path) {
  std::string head(std::min<std::uint64_t>(4, files.open(path)->size()), '\0');
  files.open(path)->read(0, head.data(), head.size());
  refuse_other_formats(head, path.string());
  return torch_file_of(read_zip_file(files, path), path.string());
}

}  // namespace lockstep
