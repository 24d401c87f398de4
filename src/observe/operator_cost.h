// SPDX-License-Identifier: Apache-2.0
// An operator in a profile's table: its name, and the operations and bytes that it needs at least, from the shapes of
// its inputs.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile libtorch 1.13 as C++20 otherwise

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/view/profile.h"

namespace lockstep::observe {

/// Returns true if `name` is an event of the autograd engine, which encloses the event of a backward node.
[[nodiscard]] bool is_engine(std::string_view name);

/// Returns the name for the table. A backward node's C++ type becomes "ConvolutionBackward0" or
/// "lockstep::WinogradConvolution backward", an event of the engine "autograd engine"; other names stay.
[[nodiscard]] std::string short_name(std::string_view name, view::CallKind kind);

/// Returns an entry for each argument, empty if it is neither a tensor nor whole numbers. A list of tensors gives the
/// entry of its first tensor.
[[nodiscard]] std::vector<view::CallInput> inputs_of(c10::ArrayRef<const c10::IValue> inputs);

struct OperatorCost {
  double flops = 0;        ///< operations of products and convolutions: two for each multiplication and its addition
  std::int64_t bytes = 0;  ///< bytes of the inputs, if an operator does little but move them
};

/// Both are 0 for an unknown operator. A convolution counts as the direct sum, however it is computed.
[[nodiscard]] OperatorCost operator_cost(std::string_view name, c10::ArrayRef<const c10::IValue> inputs);

}  // namespace lockstep::observe
