// SPDX-License-Identifier: Apache-2.0
// RunSetup: turns settings, data and checkpoint into a plan, a state and a Learner.
#pragma once

#include "lockstep/train/trainer.h"
#include "train/loop/ready_run.h"

namespace lockstep::train {

/// The Trainer's arguments. Lifetime: they outlive what is made from them.
struct RunInputs {
  Job& job;
  Task& task;
  TrainConfig& config;  ///< replicas, threads and a batch_size that is auto get the values that are used
  TrainerOptions& options;
};

/// Sets a run up, in this order: settings, run folder and checkpoint, data, batch size, network, saver.
///
/// Collective: yes. Blocks: yes.
/// Throws: UsageError, DataError, ResourceError, IoError, PeerError, TimeoutError as Trainer::fit(); also what the task
///         throws.
void set_up_run(const RunInputs& given, ReadyRun& run);

}  // namespace lockstep::train
