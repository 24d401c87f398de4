// SPDX-License-Identifier: Apache-2.0
// The place of the float32 weights of a vector of columns before they are packed for a product.
#pragma once

#include <cstdint>

namespace lockstep::nn {

struct PackedFrom {
  const float* from = nullptr;
  std::int64_t column = 0;   ///< from one column to the next
  std::int64_t step = 0;     ///< from one element of the sum to the next
  std::int64_t columns = 0;  ///< columns that exist; the vector's other lanes are 0
  std::int64_t steps = 0;    ///< units of the sum
};

}  // namespace lockstep::nn
