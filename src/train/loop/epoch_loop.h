// SPDX-License-Identifier: Apache-2.0
// EpochLoop: runs the steps, evaluations and saves of a run in order. Learner, EvaluationPoints and SavePoints do the
// work; decisions.h and stages.h decide.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/observe/profiler.h"
#include "train/loop/evaluation_points.h"
#include "train/loop/late_steps.h"
#include "train/loop/learner.h"
#include "train/loop/ready_run.h"
#include "train/loop/save_points.h"
#include "train/plan/decisions.h"
#include "train/plan/stop.h"
#include "train/report/disk_trouble.h"
#include "train/report/run_sinks.h"
#include "train/report/step_reporter.h"

namespace lockstep::train {

/// The objects used by the loop. Lifetime: they outlive it.
struct LoopParts {
  const Job& job;
  Task& task;
  ReadyRun& run;
  RunSinks& sinks;
  const StopWish& wish;
  DiskTrouble& trouble;
  StepReporter& reporter;
  observe::Profiler* profiler = nullptr;
  StepWatch* watch = nullptr;   ///< may be null
  std::int64_t until_step = 0;  ///< TrainerOptions::until_step
};

/// Owned by the training thread. Every rank has an EpochLoop, and all of them make the same decisions at the same step,
/// because decisions depend only on RunPlan, RunState and the results of collectives.
class EpochLoop {
 public:
  explicit EpochLoop(const LoopParts& parts);

  /// Trains until the run is complete or has to end early, and saves the last step. Collective: yes. Throws: the errors
  /// of Trainer::fit().
  void run();

  /// Returns true at the end of the run: all steps or epochs are done, or the target is reached.
  [[nodiscard]] bool complete() const;
  /// Returns why the run ends early; kNone if it does not.
  [[nodiscard]] StopReason stopped_by() const;
  /// Returns the results so far.
  [[nodiscard]] TrainResult result() const;
  [[nodiscard]] EvaluationPoints& evaluations() { return evaluations_; }

  /// Returns "step 12", for error reports.
  [[nodiscard]] std::string position_text() const;
  /// Returns the last step whose gradients were computed.
  [[nodiscard]] std::int64_t computed_step() const { return computed_step_; }

 private:
  void train_epoch();
  void train_step();
  void note_left_out();
  void begin_stage();
  void end_epoch();
  void save(const SaveReason& reason);
  void report_saved();
  [[nodiscard]] bool finished() const {
    return complete() || is_cut_short(until_step_, state_) || stopped_by() != StopReason::kNone;
  }

  /// The sums over the epoch's steps so far, in this process.
  struct Tally {
    TimePoint begin;
    double seconds = 0;
    std::int64_t images = 0;
  };

  const Job& job_;
  Task& task_;
  const RunPlan& plan_;
  RunState& state_;
  Learner& learner_;
  RunSaver& saver_;
  RunSinks& sinks_;
  const StopWish& wish_;
  DiskTrouble& trouble_;
  StepReporter& reporter_;
  observe::Profiler* const profiler_;  ///< nullptr if there is no profile
  StepWatch* const watch_;             ///< may be null
  const std::int64_t until_step_;
  LateSteps late_;
  EvaluationPoints evaluations_;
  SavePoints saves_;
  Tally epoch_;
  TrainResult counted_;
  std::int64_t images_ = 0;  ///< number of images trained on, over all replicas
  std::int64_t computed_step_ = 0;
  bool said_left_out_ = false;
};

}  // namespace lockstep::train
