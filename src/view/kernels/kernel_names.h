// SPDX-License-Identifier: Apache-2.0
// Finds the name of a layer and the kernel that computed it from the operators that ran inside it.
#pragma once

#include <vector>

#include "lockstep/view/kernel_report.h"

namespace lockstep::view {

/// A layer's forward pass: the outermost operator, then the operators inside it.
using LayerCalls = std::vector<const ProfiledCall*>;

/// Returns a row without times, but with the bytes of forward and backward.
[[nodiscard]] KernelRow describe_layer(const LayerCalls& calls, const KernelMachine& machine);

}  // namespace lockstep::view
