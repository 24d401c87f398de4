// SPDX-License-Identifier: Apache-2.0
// A step is reported when its loss is known, while the next step runs.
#pragma once

#include <optional>

#include "lockstep/view/progress.h"
#include "train/loop/learner.h"
#include "train/plan/run_state.h"
#include "train/report/run_sinks.h"
#include "train/step/digest_meter.h"
#include "train/step/loss_meter.h"

namespace lockstep::train {

/// It belongs to the training thread. Lifetime: its arguments outlive it.
class LateSteps {
 public:
  /// `run`'s digest_fold takes in each step that is reported.
  LateSteps(Learner& learner, RunSinks& sinks, RunState& run, DigestMeter digests);

  /// Takes the step that was just done, whose loss is being combined, and starts to combine its digests if they are in
  /// parts. Collective: yes.
  void expect(StepResult step);
  /// Reports the meter's new results, if there are any.
  void report(const std::optional<LossReading>& reading);
  /// Waits for the loss under way and reports its step. Collective: yes. Throws: NonFiniteLoss; DataError if the step's
  /// gradients were not finite.
  void flush();

  /// Restarts the rate: evaluation and saving do not count as training time.
  void restart_rate() { rate_.restart(); }

  /// Returns why a rank wished to leave, at a step that all ranks agree on.
  [[nodiscard]] StopReason stop() const { return stop_; }

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
