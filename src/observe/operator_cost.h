// SPDX-License-Identifier: Apache-2.0
// What an operator costs at least, from the shapes of its inputs.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise

#include <cstdint>
#include <string_view>

namespace lockstep::observe {

struct OperatorCost {
  double flops = 0;        ///< of products and convolutions: two for each multiplication and its addition
  std::int64_t bytes = 0;  ///< of the inputs, where an operator does little but move them
};

/// Both are 0 of an operator that is not known. A convolution counts as the direct sum, whichever way it is computed.
[[nodiscard]] OperatorCost operator_cost(std::string_view name, c10::ArrayRef<const c10::IValue> inputs);

}  // namespace lockstep::observe
