// SPDX-License-Identifier: Apache-2.0
// The one reduction: many ranks' arrays combined in tree order, whatever carried them here. Both backends call it, so
// both give the same bits.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/comm/process_group.h"

namespace lockstep::comm {

/// The rank at which tree(lo, hi) splits: lo + the largest power of two below hi - lo. Only for hi - lo > 1.
[[nodiscard]] int tree_split(int lo, int hi);

struct Reduction {
  c10::ScalarType dtype = c10::ScalarType::Float;
  ReduceOp op = ReduceOp::kSum;
};

/// Combines `count` elements of sources[0..W-1] in tree order and writes the result to every destination. A destination
/// may be one of the sources (the same address); other overlap is not allowed. float16 and bfloat16 go through float32
/// with one final rounding. Source: tree(lo, hi) of DESIGN, "Reduction order".
void tree_reduce(const Reduction& reduction, const std::vector<const std::byte*>& sources,
                 const std::vector<std::byte*>& destinations, std::int64_t count);

/// The dtypes that tree_reduce knows.
[[nodiscard]] bool is_reducible(c10::ScalarType dtype);

}  // namespace lockstep::comm
