// SPDX-License-Identifier: Apache-2.0
// A recipe that is ready to train steps on data in memory, for `lockstep bench step` and `lockstep doctor kernels`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/train/step_timer.h"
#include "worker/settings.h"

namespace lockstep::worker {

/// A recipe and its data. Without `data.train` it uses the recipe's synthetic scenes, or random images for captcha.
struct TimedRecipe {
  /// `what`: as for Settings; `sets`: settings of the form a.b=c. Collective: yes. Throws: the UsageErrors of the
  /// Trainer.
  TimedRecipe(Job& job, const std::string& what, const std::vector<std::string>& sets);

  Settings settings;
  std::unique_ptr<Task> task;
  std::unique_ptr<StepTimer> timer;
};

}  // namespace lockstep::worker
