// SPDX-License-Identifier: Apache-2.0
// The float32 weights of a vector of columns, before they are packed for a product.
#pragma once

#include <cstdint>

namespace lockstep::nn {

struct PackedFrom {
  const float* from = nullptr;
  std::int64_t column = 0;   ///< distance from one column to the next
  std::int64_t step = 0;     ///< distance from one element of the sum to the next
  std::int64_t columns = 0;  ///< number of existing columns; the vector's other lanes are 0
  std::int64_t steps = 0;    ///< number of units of the sum
};

}  // namespace lockstep::nn
