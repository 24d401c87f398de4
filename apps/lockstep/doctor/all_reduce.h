// SPDX-License-Identifier: Apache-2.0
// Measures the speed at which ranks of this host exchange gradients, by `lockstep bench all-reduce` in a child process.
#pragma once

#include "lockstep/view/machine_check.h"

namespace lockstep::apps {

/// Blocks: about 2 s. Without lockstep-worker it measures nothing, and the facts say so.
[[nodiscard]] view::AllReduceFacts measure_all_reduce();

}  // namespace lockstep::apps
