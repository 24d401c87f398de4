// SPDX-License-Identifier: Apache-2.0
// RunSetup: turns settings, data and checkpoint into a plan, a state and a Learner.
#pragma once

#include "lockstep/train/trainer.h"
#include "train/loop/ready_run.h"

namespace lockstep::train {

/// The Trainer's arguments. Lifetime: they outlive the ReadyRun.
struct RunInputs {
  Job& job;
  Task& task;
  TrainConfig& config;  ///< replicas, threads and a batch_size of auto are replaced by the values in use
  TrainerOptions& options;
};

/// Sets up a run, in this order: settings, run folder and checkpoint, data, batch size, network, saver.
///
/// Collective: yes. Blocks: yes.
/// Throws: UsageError, DataError, ResourceError, IoError, PeerError, TimeoutError, like Trainer::fit(); the task's
///         errors.
void set_up_run(const RunInputs& given, ReadyRun& run);

}  // namespace lockstep::train
