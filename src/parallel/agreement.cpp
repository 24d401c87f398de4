// SPDX-License-Identifier: Apache-2.0
// Compares models across ranks as lines of text, so that the first difference can be shown.
#include "parallel/agreement.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/split.h"

namespace lockstep::parallel {
namespace {

constexpr std::int64_t kBroadcastBytes = std::int64_t{64} << 20;
constexpr std::int64_t kAlignmentBytes = 64;

/// Returns a line for each item: kind, name and description as in "parameter\tfc.weight\tFloat [10, 4]".
std::string describe(const char* what, const NamedTensors& items) {
  std::string lines;
  for (const auto& [name, value] : items) {
    lines +=
        fmt::format("{}\t{}\t{} [{}]", what, name, c10::toString(value.scalar_type()), fmt::join(value.sizes(), ", "));
    if (!value.is_contiguous()) lines += fmt::format(" with strides [{}]", fmt::join(value.strides(), ", "));
    if (value.requires_grad()) lines += ", trained";
    lines += '\n';
  }
  return lines;
}

/// Returns the strings of all ranks.
std::vector<std::string> gather_text(const std::string& text, ProcessGroup& group) {
  const auto length = static_cast<std::int64_t>(text.size());
  std::vector<at::Tensor> lengths;
  group.all_gather(at::zeros({1}, at::kLong).fill_(length), lengths).wait();
  std::int64_t longest = 1;
  for (const auto& one : lengths) longest = std::max(longest, one.item<std::int64_t>());
  const at::Tensor bytes = at::zeros({longest}, at::kByte);
  std::memcpy(bytes.data_ptr(), text.data(), text.size());
  std::vector<at::Tensor> gathered;
  group.all_gather(bytes, gathered).wait();
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < gathered.size(); ++rank) {
    texts.emplace_back(static_cast<const char*>(gathered[rank].data_ptr()),
                       static_cast<std::size_t>(lengths[rank].item<std::int64_t>()));
  }
  return texts;
}

[[noreturn]] void throw_difference(const std::string& rank_zero, const std::string& other, std::size_t rank) {
  const std::vector<std::string> left = text::split_words(rank_zero, '\n');
  const std::vector<std::string> right = text::split_words(other, '\n');
  std::size_t at = 0;
  while (at < left.size() && at < right.size() && left[at] == right[at]) ++at;
  const char* hint = "build the same model on every rank";
  if (at == left.size() || at == right.size()) {
    const std::vector<std::string> extra = text::split(at == left.size() ? right[at] : left[at], '\t');
    throw UsageError(fmt::format("{} '{}' ({}) is on rank {} but not on rank {}", extra[0], extra[1], extra[2],
                                 at == left.size() ? rank : 0, at == left.size() ? 0 : rank),
                     hint);
  }
  const std::vector<std::string> a = text::split(left[at], '\t');
  const std::vector<std::string> b = text::split(right[at], '\t');
  if (a[1] != b[1]) {
    throw UsageError(fmt::format("{} '{}' on rank 0 is {} '{}' on rank {}", a[0], a[1], b[0], b[1], rank), hint);
  }
  throw UsageError(fmt::format("{} '{}' is {} on rank 0 and {} on rank {}", a[0], a[1], a[2], b[2], rank), hint);
}

/// Returns a view of the item's place in a byte buffer. Its elements are in logical order, so that memory layouts may
/// differ.
at::Tensor typed_part(const at::Tensor& bytes, std::int64_t offset, const at::Tensor& item) {
  const auto length = static_cast<std::int64_t>(item.nbytes());
  return bytes.narrow(0, offset, length).view(item.scalar_type()).view(item.sizes());
}

std::int64_t padded(const at::Tensor& item) {
  const auto length = static_cast<std::int64_t>(item.nbytes());
  return (length + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
}

void copy_together(int source, const std::vector<at::Tensor>& items, std::int64_t bytes, ProcessGroup& group) {
  const at::Tensor packed = at::empty({bytes}, items.front().options().dtype(at::kByte).requires_grad(false));
  const auto each = [&](const auto& action) {
    std::int64_t offset = 0;
    for (const at::Tensor& item : items) {
      action(typed_part(packed, offset, item), item);
      offset += padded(item);
    }
  };
  if (group.rank() == source) each([](const at::Tensor& part, const at::Tensor& item) { part.copy_(item); });
  group.broadcast(packed, source).wait();
  if (group.rank() != source) each([](const at::Tensor& part, const at::Tensor& item) { item.copy_(part); });
}

}  // namespace

void require_equal_models(const NamedTensors& parameters, const NamedTensors& buffers, ProcessGroup& group) {
  if (group.world_size() == 1) return;
  const std::vector<std::string> all =
      gather_text(describe("parameter", parameters) + describe("buffer", buffers), group);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) throw_difference(all[0], all[rank], rank);
  }
}

void copy_from_rank(int source, const NamedTensors& items, ProcessGroup& group) {
  if (group.world_size() == 1) return;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> together;
  std::int64_t bytes = 0;
  for (const auto& item : items) {
    if (item.second.numel() == 0) continue;
    together.push_back(item.second);
    bytes += padded(item.second);
    if (bytes < kBroadcastBytes) continue;
    copy_together(source, together, bytes, group);
    together.clear();
    bytes = 0;
  }
  if (!together.empty()) copy_together(source, together, bytes, group);
}

}  // namespace lockstep::parallel
