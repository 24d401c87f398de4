// SPDX-License-Identifier: Apache-2.0
// A training step of the captcha network under DataParallel: threads of one process instead of ranks.
#pragma once

#include "lockstep/comm/job.h"
#include "worker/bench/bench_step.h"

namespace lockstep::worker {

/// `bench.data_parallel` replicas. Prints the figure. Throws: UsageError for another recipe, several ranks or a GPU.
int run_data_parallel_bench(const Job& job, const StepBench& bench);

}  // namespace lockstep::worker
