// SPDX-License-Identifier: Apache-2.0
// Steps are told once their loss is known, which is while the next one runs.
#pragma once

#include <optional>

#include "lockstep/view/progress.h"
#include "train/loop/learner.h"
#include "train/report/run_sinks.h"
#include "train/step/loss_meter.h"

namespace lockstep::train {

/// Owned by the training thread. Lifetime: all that it is given outlives it.
class LateSteps {
 public:
  LateSteps(Learner& learner, RunSinks& sinks);

  /// The step that was just done: its loss is being combined.
  void expect(StepResult step) { waiting_ = std::move(step); }
  /// What the meter has come to know; nothing where it knows nothing new.
  void tell(const std::optional<LossReading>& reading);
  /// Waits for the loss under way and tells its step. Collective: yes.
  void flush();

  /// Evaluation and saving are no training time.
  void restart_rate() { rate_.restart(); }

  /// Why a rank wished to leave, by a step that all ranks agree on.
  [[nodiscard]] StopReason stop() const { return stop_; }

 private:
  Learner& learner_;
  RunSinks& sinks_;
  view::RateMeter rate_;
  std::optional<StepResult> waiting_;
  StopReason stop_ = StopReason::kNone;
};

}  // namespace lockstep::train
