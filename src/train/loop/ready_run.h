// SPDX-License-Identifier: Apache-2.0
// ReadyRun: the result of the set-up, which the training loop uses.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "lockstep/train/run_folder.h"
#include "lockstep/view/banner.h"
#include "train/loop/learner.h"
#include "train/loop/run_saver.h"
#include "train/plan/run_plan.h"
#include "train/plan/run_state.h"

namespace lockstep::train {

/// A run that is ready for its next step. After an error in the set-up it has the parts that were ready.
struct ReadyRun {
  std::optional<RunFolder> folder;  ///< set on rank 0 only
  std::filesystem::path run_dir;    ///< path of the run folder, on every rank
  std::optional<Learner> learner;
  std::optional<RunPlan> plan;
  RunState state;
  std::unique_ptr<RunSaver> saver;
  view::BannerInfo banner;  ///< complete on rank 0 only
};

}  // namespace lockstep::train
