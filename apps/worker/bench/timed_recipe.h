// SPDX-License-Identifier: Apache-2.0
// A recipe, ready to step on data in memory, for `lockstep bench step` and `lockstep doctor kernels`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/train/step_timer.h"
#include "worker/settings.h"

namespace lockstep::worker {

/// Without `data.train` it uses the recipe's made-up scenes, or random images for captcha.
struct TimedRecipe {
  /// `what` as Settings; `sets`: a.b=c each. Collective: yes. Throws: UsageError as the Trainer.
  TimedRecipe(Job& job, const std::string& what, const std::vector<std::string>& sets);

  Settings settings;
  std::unique_ptr<Task> task;
  std::unique_ptr<StepTimer> timer;
};

}  // namespace lockstep::worker
