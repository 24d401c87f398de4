// SPDX-License-Identifier: Apache-2.0
// An operator in a profile's table: its name, and the minimum number of operations and bytes that the shapes of its
// inputs require.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/view/profile.h"

namespace lockstep::observe {

/// Returns true if `name` is an event of the autograd engine, which encloses the event of a backward node.
[[nodiscard]] bool is_engine(std::string_view name);

/// Returns the name for the table. A backward node's C++ type becomes "ConvolutionBackward0" or
/// "lockstep::WinogradConvolution backward", an event of the engine "autograd engine"; other names stay the same.
[[nodiscard]] std::string short_name(std::string_view name, view::CallKind kind);

/// Returns an entry for each argument, which is empty if the argument is neither a tensor nor integers. A list of
/// tensors gets the entry of its first tensor.
[[nodiscard]] std::vector<view::CallInput> inputs_of(c10::ArrayRef<const c10::IValue> inputs);

struct OperatorCost {
  double flops = 0;        ///< operations of matrix products and convolutions; a multiply-add counts as two
  std::int64_t bytes = 0;  ///< bytes of the inputs, if the operator does little more than move them
};

/// Returns the cost of an operator; it is 0 for an unknown operator. Every convolution counts as a direct convolution.
[[nodiscard]] OperatorCost operator_cost(std::string_view name, c10::ArrayRef<const c10::IValue> inputs);

}  // namespace lockstep::observe
