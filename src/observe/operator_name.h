// SPDX-License-Identifier: Apache-2.0
// The names of operators and backward nodes as a table shows them.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/view/profile.h"

namespace lockstep::observe {

/// Whether this is the autograd engine around a backward node.
[[nodiscard]] bool is_engine(std::string_view name);

/// Returns "ConvolutionBackward0", "lockstep::WinogradConvolution backward" of a node's C++ type, "autograd engine", or
/// the name itself.
[[nodiscard]] std::string short_name(std::string_view name, view::CallKind kind);

}  // namespace lockstep::observe
