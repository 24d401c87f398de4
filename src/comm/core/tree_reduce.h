// SPDX-License-Identifier: Apache-2.0
// The only reduction on the CPU: combines arrays in tree order. Every backend and the reducer call it, so all give the
// same bits.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/comm/replicas.h"

namespace lockstep::comm {

struct Reduction {
  c10::ScalarType dtype = c10::ScalarType::Float;  ///< dtype of the leaves
  ReduceOp op = ReduceOp::kSum;
  int divisor = 1;  ///< divisor of a mean
  /// The dtype of the destinations; by default the dtype of the leaves. An unrounded partial sum of float16 or bfloat16
  /// values is float32, whether it is a result or a leaf.
  std::optional<c10::ScalarType> result = std::nullopt;
};

/// One array to combine, and the replicas (or ranks) in its sum, which form a whole subtree.
struct TreeLeaf {
  const std::byte* data = nullptr;
  ReplicaSpan span;
};

/// Combines `count` elements of all leaves in tree order and writes the result to every destination. The leaves come
/// from left to right and together make up one subtree. A destination may be one of the leaves (the same address);
/// other overlap is not allowed. float16 and bfloat16 are combined in float32 with one final rounding.
void tree_reduce(const Reduction& reduction, const std::vector<TreeLeaf>& leaves,
                 const std::vector<std::byte*>& destinations, std::int64_t count);

/// Returns true for the dtypes that tree_reduce() supports.
[[nodiscard]] bool is_reducible(c10::ScalarType dtype);

/// Returns the dtype of the computation: float32 for float16 and bfloat16, else the dtype itself.
[[nodiscard]] c10::ScalarType accumulator_of(c10::ScalarType dtype);

}  // namespace lockstep::comm
