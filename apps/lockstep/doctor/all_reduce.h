// SPDX-License-Identifier: Apache-2.0
// Measures how fast this host's ranks exchange gradients, by running `lockstep bench all-reduce` in a child process.
#pragma once

#include "lockstep/view/machine_check.h"

namespace lockstep::apps {

/// Blocks: about 2 s. Without lockstep-worker, measures nothing and reports that in the facts.
[[nodiscard]] view::AllReduceFacts measure_all_reduce();

}  // namespace lockstep::apps
