// SPDX-License-Identifier: Apache-2.0
// SavePoints: decides when a run is saved, and collects the contents of its checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/loop/learner.h"
#include "train/loop/run_saver.h"
#include "train/plan/run_plan.h"
#include "train/plan/run_state.h"

namespace lockstep::train {

/// Why a step is saved.
struct SaveReason {
  std::vector<std::string> names = {};  ///< names for the checkpoint, such as "best"
  bool may_skip = false;                ///< due only because of checkpoint.every_steps
  bool last = false;                    ///< no step follows
};

/// Owned by the training thread. Lifetime: its arguments outlive it.
class SavePoints {
 public:
  SavePoints(const Job& job, const RunPlan& plan, Learner& learner, RunSaver& saver)
      : job_(job), plan_(plan), learner_(learner), saver_(saver) {}

  /// Returns true if checkpoint.every_steps calls for a save of the step just done.
  [[nodiscard]] bool is_due(const RunState& run) const;

  /// Saves the run's current state; if the step is already saved, it only adds the names.
  /// Collective: yes. Blocks: like RunSaver::save(). Throws: anything RunSaver::save() throws.
  void save(RunState& run, const SaveReason& reason);

  /// Allocates memory for copies of the state, once the first step has created the optimizer's state. Does not block
  /// for long.
  void make_room(const RunState& run);

 private:
  [[nodiscard]] StateParts parts(const RunState& run);

  const Job& job_;
  const RunPlan& plan_;
  Learner& learner_;
  RunSaver& saver_;
  std::int64_t asked_step_ = -1;  ///< the step of the last save()
  bool made_room_ = false;
};

}  // namespace lockstep::train
