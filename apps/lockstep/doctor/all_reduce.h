// SPDX-License-Identifier: Apache-2.0
// How fast ranks of this host exchange gradients: `lockstep bench all-reduce` as a child, which has libtorch.
#pragma once

#include "lockstep/view/machine_check.h"

namespace lockstep::apps {

/// It takes some 2 s. Without lockstep-worker nothing is measured, and the facts say so.
[[nodiscard]] view::AllReduceFacts measure_all_reduce();

}  // namespace lockstep::apps
