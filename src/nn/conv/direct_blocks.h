// SPDX-License-Identifier: Apache-2.0
// The block sizes of the products in direct.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "nn/conv/direct.h"

namespace lockstep::nn {

/// Number of results of a class that are computed at a time: a multiple of the rows of every block of sums.
constexpr std::int64_t kDirectChunk = 96;
/// Number of output channels that are computed at a time: their weights stay in the second-level cache.
constexpr std::int64_t kDirectColumns = 64;
/// The columns of the packed weights are padded with zeros to a whole vector of any instruction set.
constexpr std::int64_t kDirectLanes = 16;
/// Number of output channels whose gradients are summed together: a multiple of a vector, and of the rows of a block.
constexpr std::int64_t kDirectPanel = 48;

[[nodiscard]] inline std::int64_t direct_columns(std::int64_t out) {
  return (out + kDirectLanes - 1) / kDirectLanes * kDirectLanes;
}
[[nodiscard]] inline std::int64_t direct_blocks(std::int64_t out) {
  return (out + kDirectColumns - 1) / kDirectColumns;
}
/// Returns the number of packed columns of the block that begins at `column`.
[[nodiscard]] inline std::int64_t direct_width(std::int64_t out, std::int64_t column) {
  return std::min(kDirectColumns, direct_columns(out) - column);
}
/// Returns the number of chunks in all classes.
[[nodiscard]] std::int64_t direct_chunks(const DirectPlan& plan);

}  // namespace lockstep::nn
