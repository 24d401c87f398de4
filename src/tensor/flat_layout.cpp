// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/flat_layout.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::tensor {
namespace {

constexpr std::int64_t kAlignmentBytes = 64;  // a cache line, and the widest vector

std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t step = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<std::int64_t>(sizes[i], 1);
  }
  return strides;
}

}  // namespace

FlatLayout flat_layout(const NamedTensors& items, at::ScalarType dtype) {
  const auto item_bytes = static_cast<std::int64_t>(c10::elementSize(dtype));
  const std::int64_t alignment = kAlignmentBytes / item_bytes;
  FlatLayout layout;
  for (const auto& [name, value] : items) {
    if (value.scalar_type() != dtype) {
      throw UsageError(fmt::format("'{}' is {}, but its flat buffer holds {}", name, c10::toString(value.scalar_type()),
                                   c10::toString(dtype)));
    }
    FlatSlot slot{.name = name, .offset = layout.numel, .numel = value.numel(), .sizes = value.sizes().vec()};
    slot.strides = value.is_non_overlapping_and_dense() ? value.strides().vec() : contiguous_strides(slot.sizes);
    layout.numel += (slot.numel + alignment - 1) / alignment * alignment;
    layout.slots.push_back(std::move(slot));
  }
  return layout;
}

at::Tensor flat_view(const at::Tensor& buffer, const FlatSlot& slot) {
  // as_strided() would create a view in autograd's sense, whose detach_() (in zero_grad) is an error.
  const at::NoGradGuard no_grad;
  return at::empty({0}, buffer.options())
      .set_(buffer.storage(), buffer.storage_offset() + slot.offset, slot.sizes, slot.strides);
}

}  // namespace lockstep::tensor
