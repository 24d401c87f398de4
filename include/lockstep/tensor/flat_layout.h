// SPDX-License-Identifier: Apache-2.0
// The positions of named tensors in one flat buffer. Optimizer state and gradient buckets use the same layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/tensor/named_tensors.h"

#pragma GCC visibility push(default)

namespace lockstep::tensor {

/// One tensor's position in a flat buffer. Flat order is memory order: element i of the slot is element i of the
/// tensor's own memory.
struct FlatSlot {
  std::string name = {};                   ///< the tensor's name
  std::int64_t offset = 0;                 ///< offset in the buffer, in elements; a multiple of 64 bytes
  std::int64_t numel = 0;                  ///< number of elements of the tensor
  std::vector<std::int64_t> sizes = {};    ///< the tensor's sizes
  std::vector<std::int64_t> strides = {};  ///< the tensor's strides if it is dense, else contiguous strides
};

/// The positions of several tensors of one dtype.
struct FlatLayout {
  std::vector<FlatSlot> slots;  ///< slots in the order of the buffer
  std::int64_t numel = 0;       ///< number of elements of the whole buffer, including padding
};

/// Places `items` one after another; each start is aligned to 64 bytes.
/// Throws: UsageError naming the first item whose dtype is not `dtype`.
[[nodiscard]] FlatLayout flat_layout(const NamedTensors& items, at::ScalarType dtype);

/// Returns the part of `buffer` that belongs to `slot`, with the slot's sizes and strides. Lifetime: it shares the
/// buffer's storage.
[[nodiscard]] at::Tensor flat_view(const at::Tensor& buffer, const FlatSlot& slot);

}  // namespace lockstep::tensor

#pragma GCC visibility pop
