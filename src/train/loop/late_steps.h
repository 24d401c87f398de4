// SPDX-License-Identifier: Apache-2.0
// Steps are told once their loss is known, which is while the next one runs.
#pragma once

#include <optional>

#include "lockstep/view/progress.h"
#include "train/loop/learner.h"
#include "train/report/run_sinks.h"
#include "train/step/loss_meter.h"

namespace lockstep::train {

/// It belongs to the training thread. Lifetime: its arguments outlive it.
class LateSteps {
 public:
  LateSteps(Learner& learner, RunSinks& sinks);

  /// Takes the step that was just done, whose loss is being combined.
  void expect(StepResult step) { waiting_ = std::move(step); }
  /// Reports what the meter knows by now; nothing where there is nothing new.
  void tell(const std::optional<LossReading>& reading);
  /// Waits for the loss under way and reports its step. Collective: yes. Throws: NonFiniteLoss; DataError where the
  /// step's gradients were not finite.
  void flush();

  /// Restarts the rate: evaluation and saving do not count as training time.
  void restart_rate() { rate_.restart(); }

  /// Returns why a rank wished to leave, at a step that all ranks agree on.
  [[nodiscard]] StopReason stop() const { return stop_; }

 private:
  Learner& learner_;
  RunSinks& sinks_;
  view::RateMeter rate_;
  std::optional<StepResult> waiting_;
  StopReason stop_ = StopReason::kNone;
};

}  // namespace lockstep::train
