// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::nn {

/// What memory holds that kernels get as void*: float32, or bfloat16 as its 16 bits.
enum class ElementType { kFloat, kBFloat16 };

/// Columns of an array of sums that whole vectors are added to.
[[nodiscard]] constexpr std::int64_t padded(std::int64_t columns) { return (columns + 15) / 16 * 16; }

}  // namespace lockstep::nn
