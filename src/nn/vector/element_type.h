// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::nn {

/// The type of the elements that kernels receive as void*: float32, or bfloat16 as its 16 bits.
enum class ElementType { kFloat, kBFloat16 };

/// Returns the number of columns in an array of sums, rounded up so that whole vectors can be added.
[[nodiscard]] constexpr std::int64_t padded(std::int64_t columns) { return (columns + 15) / 16 * 16; }

}  // namespace lockstep::nn
