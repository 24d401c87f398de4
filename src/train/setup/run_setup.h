// SPDX-License-Identifier: Apache-2.0
// RunSetup: settings, data and checkpoint become a plan, a state and what learns.
#pragma once

#include <memory>
#include <optional>

#include "lockstep/train/run_folder.h"
#include "lockstep/train/trainer.h"
#include "lockstep/view/banner.h"
#include "train/loop/learner.h"
#include "train/run_saver.h"
#include "train/run_state.h"
#include "train/setup/run_plan.h"

namespace lockstep::train {

/// What the Trainer was given. Lifetime: outlives what is made of it.
struct RunInputs {
  Job& job;
  Task& task;
  TrainConfig& config;  ///< replicas, threads and a batch_size that is auto become what they turn out to be
  TrainerOptions& options;
};

/// A run that is ready for its next step. What an error leaves behind in the middle of the set-up is what is there
/// already: the report of an error asks for it.
struct ReadyRun {
  std::optional<RunFolder> folder;  ///< rank 0's
  std::filesystem::path run_dir;    ///< that folder's path, on every rank
  std::optional<Learner> learner;
  std::optional<RunPlan> plan;
  RunState state;
  std::unique_ptr<RunSaver> saver;
  view::BannerInfo banner;  ///< whole on rank 0 only
};

/// In this order: settings, run folder and checkpoint, data, batch size, network, saver.
///
/// Collective: yes. Blocks: yes.
/// Throws: UsageError, DataError, ResourceError, IoError, PeerError, TimeoutError as Trainer::fit() says; what the
///         task throws.
void set_up_run(const RunInputs& given, ReadyRun& run);

}  // namespace lockstep::train
