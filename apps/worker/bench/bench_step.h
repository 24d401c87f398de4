// SPDX-License-Identifier: Apache-2.0
// One training step of a recipe, with the recipe's network, losses, optimizer and moving average, on data in memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/job.h"

namespace lockstep::worker {

struct StepBench {
  std::string recipe;                  ///< RECIPE, RECIPE:PRESET or FILE.yml
  std::vector<std::string> sets = {};  ///< settings, as key=value
  int data_parallel = 0;               ///< replicas of DataParallel in one process; 0: DistributedDataParallel
  bool recorder_cost = false;          ///< compares steps with and without flight recorder and step report
  std::int64_t repeats = 7;
  std::int64_t profile = 0;  ///< steps to profile after the timed ones; 0: none
  bool json = false;
  bool shapes = false;  ///< the JSON has the parameters' shapes
};

/// Without `data.train` the recipe's made-up scenes are loaded, or random images for captcha. Loading takes no part:
/// one batch's samples are kept in memory, and only put together again for each step. The learning rate is 0.
/// Collective: yes. Prints on rank 0. Throws: UsageError as the Trainer.
int run_step_bench(Job& job, const StepBench& bench);

}  // namespace lockstep::worker
