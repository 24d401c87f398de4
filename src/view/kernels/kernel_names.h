// SPDX-License-Identifier: Apache-2.0
// The name of a layer and the kernel that computed it, from the operators that ran inside of it.
#pragma once

#include <vector>

#include "lockstep/view/kernel_report.h"

namespace lockstep::view {

/// A layer's forward: the outermost operator, then those inside.
using LayerCalls = std::vector<const ProfiledCall*>;

/// A row without times, with the forward's and the backward's bytes.
[[nodiscard]] KernelRow describe_layer(const LayerCalls& calls, const KernelMachine& machine);

}  // namespace lockstep::view
