// SPDX-License-Identifier: Apache-2.0
// The speed at which ranks of this host exchange gradients: `lockstep bench all-reduce`, in a child that has libtorch.
#pragma once

#include "lockstep/view/machine_check.h"

namespace lockstep::apps {

/// Takes some 2 s. Without lockstep-worker it measures nothing, and the facts say so.
[[nodiscard]] view::AllReduceFacts measure_all_reduce();

}  // namespace lockstep::apps
