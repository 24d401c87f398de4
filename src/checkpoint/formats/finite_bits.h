// SPDX-License-Identifier: Apache-2.0
// NaN and infinity among the bytes of a tensor. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/formats/safetensors_header.h"

namespace lockstep::checkpoint {

/// How many values are none, and how many are infinite.
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

/// Counts among `bytes` bytes, whole elements of `dtype`; zero for types that are not floating.
/// Cost: where all are finite, one pass at the speed of memory.
[[nodiscard]] NotFiniteCount count_not_finite(DType dtype, const void* data, std::size_t bytes);

}  // namespace lockstep::checkpoint
