// SPDX-License-Identifier: Apache-2.0
// StepBuffers: the network's buffers (running statistics) between steps.
#pragma once

#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/tensor/named_tensors.h"
#include "train/step/step_clock.h"
#include "train/task/task_net.h"

namespace lockstep::train {

/// Owned by the training thread. Lifetime: clock and model outlive it.
class StepBuffers {
 public:
  explicit StepBuffers(StepClock& clock) : clock_(clock) {}

  /// Uses the buffers of `model`.
  void build(DistributedDataParallel<TaskNet>& model) { model_ = &model; }
  /// Copies replica 0's buffers to every rank and replica, if anything has changed them. Collective: yes.
  void sync();
  /// Begins a step, which changes the buffers; with `keeps`, keeps a copy for restore().
  void begin(bool keeps);
  /// After a step with a scaled loss was skipped, restores the elements that the step turned into NaN or infinity;
  /// running statistics from an overflow would otherwise stay wrong. Does nothing if the step began without a copy.
  /// Collective: yes.
  void restore();
  /// Records that weights and buffers were loaded.
  void note_change() { synced_ = false; }

 private:
  [[nodiscard]] NamedTensors floating() const;

  StepClock& clock_;
  DistributedDataParallel<TaskNet>* model_ = nullptr;
  NamedTensors kept_;    ///< copies from before the step
  bool synced_ = false;  ///< no step has changed the buffers since the last sync()
};

}  // namespace lockstep::train
