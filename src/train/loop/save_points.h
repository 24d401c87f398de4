// SPDX-License-Identifier: Apache-2.0
// When a run is saved, and what its checkpoints hold.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/loop/learner.h"
#include "train/loop/run_saver.h"
#include "train/plan/run_plan.h"
#include "train/plan/run_state.h"

namespace lockstep::train {

/// Says why and how a step is saved.
struct SaveReason {
  std::vector<std::string> names = {};  ///< "best" and similar names that the step has earned
  bool may_skip = false;                ///< it is saved only because some steps have passed
  bool last = false;                    ///< no step follows
};

/// It belongs to the training thread. Lifetime: its arguments outlive it.
class SavePoints {
 public:
  SavePoints(const Job& job, const RunPlan& plan, Learner& learner, RunSaver& saver)
      : job_(job), plan_(plan), learner_(learner), saver_(saver) {}

  /// Returns true if checkpoint.every_steps names the step that was just done.
  [[nodiscard]] bool is_due(const RunState& run) const;

  /// Saves the present run; a step that is already saved only gets the names.
  /// Collective: yes. Blocks, throws: as RunSaver::save().
  void save(RunState& run, const SaveReason& reason);

  /// Allocates memory for copies of the state, once the first step has created the optimizer's state. It does not block
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
