// SPDX-License-Identifier: Apache-2.0
// An operator in a table: its name, and its least cost, from the shapes of its inputs.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/view/profile.h"

namespace lockstep::observe {

/// Returns true for the autograd engine around a backward node.
[[nodiscard]] bool is_engine(std::string_view name);

/// Returns "ConvolutionBackward0", "lockstep::WinogradConvolution backward" for a node's C++ type, "autograd engine",
/// or the name itself.
[[nodiscard]] std::string short_name(std::string_view name, view::CallKind kind);

/// One for each argument, even for those that are neither tensors nor whole numbers. For a list of tensors its first.
[[nodiscard]] std::vector<view::CallInput> inputs_of(c10::ArrayRef<const c10::IValue> inputs);

struct OperatorCost {
  double flops = 0;        ///< of products and convolutions: two for each multiplication and its addition
  std::int64_t bytes = 0;  ///< of the inputs, if an operator does little but move them
};

/// Both are 0 for an unknown operator. A convolution counts as the direct sum, however it is computed.
[[nodiscard]] OperatorCost operator_cost(std::string_view name, c10::ArrayRef<const c10::IValue> inputs);

}  // namespace lockstep::observe
