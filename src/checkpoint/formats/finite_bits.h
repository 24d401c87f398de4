// SPDX-License-Identifier: Apache-2.0
// Counts NaN and infinity in the bytes of a tensor, without libtorch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/formats/safetensors_header.h"

namespace lockstep::checkpoint {

/// How many values are NaN, and how many are infinite.
struct NotFiniteCount {
  std::int64_t nan = 0;
  std::int64_t infinite = 0;

  NotFiniteCount& operator+=(const NotFiniteCount& other) {
    nan += other.nan;
    infinite += other.infinite;
    return *this;
  }
};

[[nodiscard]] bool is_floating(DType dtype) noexcept;

/// Counts the values in `bytes` bytes, which are whole elements of `dtype`; zero for types that are not floating-point.
/// Cost: if all values are finite, one pass at memory bandwidth.
[[nodiscard]] NotFiniteCount count_not_finite(DType dtype, const void* data, std::size_t bytes);

}  // namespace lockstep::checkpoint
