// SPDX-License-Identifier: Apache-2.0
// EvaluationPoints: decides when a run is evaluated and keeps the results: metrics, the best so far, the target.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/evaluate.h"
#include "train/loop/learner.h"
#include "train/plan/run_plan.h"
#include "train/plan/run_state.h"
#include "train/report/run_sinks.h"

namespace lockstep::train {

/// Owned by the training thread. Lifetime: its arguments outlive it.
class EvaluationPoints {
 public:
  /// `run` is the state of the run, which may have reached its target before it was resumed.
  EvaluationPoints(const RunPlan& plan, Learner& learner, RunSinks& sinks, const RunState& run);

  /// Returns true if an evaluation is due at the end of `epoch`.
  [[nodiscard]] bool is_due(const RunState& run, std::int64_t epoch) const;

  /// Evaluates, reports the result, and records it in `run`. `loss` is the epoch's loss. Returns: the names for the
  /// step's checkpoint, such as "best". Collective: yes.
  [[nodiscard]] std::vector<std::string> evaluate(RunState& run, std::int64_t epoch, std::optional<double> loss);

  /// Evaluates without output and without changes to the run, for a process that found the run complete and has not
  /// evaluated. Does nothing if this process has already evaluated, or if the run has no evaluations. Collective: yes.
  void make_up();

  /// Returns the metrics of the last evaluation; empty before the first evaluation.
  [[nodiscard]] const std::vector<Metric>& metrics() const { return last_.metrics; }
  [[nodiscard]] const Evaluation& last() const { return last_; }
  [[nodiscard]] bool reached_target() const { return reached_target_; }
  /// Returns true during evaluate() and after it has thrown; used in error reports.
  [[nodiscard]] bool under_way() const { return under_way_; }

 private:
  [[nodiscard]] std::vector<std::string> note_best(RunState& run, std::optional<double> loss, bool counts);

  const RunPlan& plan_;
  Learner& learner_;
  RunSinks& sinks_;
  Evaluation last_;
  bool reached_target_;
  bool under_way_ = false;
};

}  // namespace lockstep::train
