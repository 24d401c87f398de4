// SPDX-License-Identifier: Apache-2.0
// A run in two stages: starting at stop_epoch, all ranks continue from the first stage's best weights and search for
// the decay of the moving average. Only the decisions are here, as pure functions; EpochLoop carries them out.
//
// Source: the solver of D-FINE and DEIM (fit()). In it, the file with the best weights is read while it is being
//         written, the new decay has no effect, and the saved state has no stages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/tensor/state_dict.h"
#include "lockstep/train/task.h"
#include "lockstep/train/train_config.h"

namespace lockstep::train {

/// A run's position in its stages, a part of RunState. It is the same on all ranks.
struct StageState {
  std::int64_t stage = 1;
  std::int64_t base_step = 0;   ///< step of stage 1's best checkpoint, from which stage 2 starts; 0 if none
  std::optional<Metric> rival;  ///< stage 2: the metric that the next evaluation must beat; if none, any metric will do
  double decay = 0;             ///< stage 2: decay of the average
  bool roll_back = false;  ///< stage 2: the last epoch was no improvement, so the next one starts from the base again
  std::int64_t no_better = 0;    ///< stage 1: evaluations since the best one
  std::int64_t begin_epoch = 0;  ///< stage 2: its first epoch
};

/// The outcome of an evaluation.
struct Evaluated {
  Metric metric;
  std::int64_t step = 0;
  bool best = false;   ///< it is now the run's best across both stages
  bool counts = true;  ///< false if it takes place only because the run ends here, so a longer run would not have it
  bool gains = true;   ///< the best metric has improved; false if the loss decided between equal metrics
};

/// Records the outcome in `state`. Returns: the names that the step's checkpoint gets: best, best_stg1, best_stg2.
[[nodiscard]] std::vector<std::string> note_evaluation(const TrainConfig::Stages& options, StageState& state,
                                                       const Evaluated& evaluated);

/// The action to take before the first batch of an epoch.
enum class StageMove {
  kNone,
  kRefresh,   ///< the second stage begins
  kRollBack,  ///< the second stage goes back to its beginning
};
[[nodiscard]] StageMove next_move(const TrainConfig::Stages& options, const StageState& state, std::int64_t epoch);

/// Applies `move` to `state` before `epoch`; the caller has loaded the base. `best` is the run's best so far.
void make_move(const TrainConfig::Stages& options, StageMove move, std::int64_t epoch,
               const std::optional<Metric>& best, StageState& state);

/// Returns the number of epochs in the run, as far as known: a second stage may end it before config.epochs.
[[nodiscard]] std::int64_t last_epoch(const TrainConfig& config, const StageState& state);

/// Adds the entries "stages.*" to the state "run"; a run in one stage has none.
void add_stages(const StageState& stages, StateDict& state);
/// Throws: DataError naming the entry that is missing or has the wrong type.
[[nodiscard]] StageState stages_of(const StateDict& state);

}  // namespace lockstep::train
