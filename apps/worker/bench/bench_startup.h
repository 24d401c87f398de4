// SPDX-License-Identifier: Apache-2.0
// One rank's part of `lockstep bench startup`: a small model in DistributedDataParallel, and one step of it.
#pragma once

#include "lockstep/comm/job.h"

namespace lockstep::worker {

/// Collective: yes. Rank 0 prints the monotonic time, in ns, at which every rank had finished the step.
int run_startup_bench(Job& job);

}  // namespace lockstep::worker
