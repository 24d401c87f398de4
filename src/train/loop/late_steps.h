// SPDX-License-Identifier: Apache-2.0
// LateSteps: reports a step once its loss is known, while the next step is running.
#pragma once

#include <optional>

#include "lockstep/view/progress.h"
#include "train/loop/learner.h"
#include "train/plan/run_state.h"
#include "train/report/run_sinks.h"
#include "train/step/digest_meter.h"
#include "train/step/loss_meter.h"

namespace lockstep::train {

/// Owned by the training thread. Lifetime: its arguments outlive it.
class LateSteps {
 public:
  /// Each reported step is added to digest_fold of `run`.
  LateSteps(Learner& learner, RunSinks& sinks, RunState& run, DigestMeter digests);

  /// Takes the step just done, whose loss is being reduced, and starts reducing its digests if each rank has only a
  /// part of them. Collective: yes.
  void expect(StepResult step);
  /// Reports a step with the meter's new reading, if there is a reading.
  void report(const std::optional<LossReading>& reading);
  /// Waits for the pending loss and reports its step. Collective: yes. Throws: NonFiniteLoss; DataError if the step's
  /// gradients were not finite.
  void flush();

  /// Restarts the measurement of the rate, because evaluation and saving do not count as training time.
  void restart_rate() { rate_.restart(); }

  /// Returns why a rank asked to end the run; all ranks learn it at the same step.
  [[nodiscard]] StopReason stop() const { return stop_; }
  /// Ends the run between two steps. Every rank calls it with the same reason.
  void stop_for(StopReason reason) { stop_ = reason; }

 private:
  void take_digest(double loss, StepResult& step);

  Learner& learner_;
  RunSinks& sinks_;
  RunState& run_;
  DigestMeter digests_;
  view::RateMeter rate_;
  std::optional<StepResult> waiting_;
  StopReason stop_ = StopReason::kNone;
};

}  // namespace lockstep::train
