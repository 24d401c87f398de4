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

/// Why and how a step is saved.
struct SaveReason {
  std::vector<std::string> names = {};  ///< "best" and its like, that the step has earned
  bool may_skip = false;                ///< it is saved only because some steps have gone by
  bool last = false;                    ///< no step follows
};

/// Owned by the training thread. Lifetime: all that it is given outlives it.
class SavePoints {
 public:
  SavePoints(const Job& job, const RunPlan& plan, Learner& learner, RunSaver& saver)
      : job_(job), plan_(plan), learner_(learner), saver_(saver) {}

  /// checkpoint.every_steps names the step that was just done.
  [[nodiscard]] bool is_due(const RunState& run) const;

  /// Saves the run as it stands; a step that is saved already only gets the names.
  /// Collective: yes. Blocks, throws: as RunSaver::save().
  void save(RunState& run, const SaveReason& reason);

  /// Once the first step is done, and with it the optimizer's state: makes room for copies of it. Never blocks.
  void make_room(const RunState& run);

 private:
  [[nodiscard]] StateParts parts(const RunState& run);

  const Job& job_;
  const RunPlan& plan_;
  Learner& learner_;
  RunSaver& saver_;
  std::int64_t asked_step_ = -1;  ///< at which save() was called last
  bool made_room_ = false;
};

}  // namespace lockstep::train
