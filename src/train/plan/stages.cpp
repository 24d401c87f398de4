// SPDX-License-Identifier: Apache-2.0
#include "train/plan/stages.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "train/plan/run_state.h"

namespace lockstep::train {

std::vector<std::string> note_evaluation(const TrainConfig::Stages& options, StageState& state,
                                         const Evaluated& evaluated) {
  std::vector<std::string> names;
  if (evaluated.best) names.emplace_back("best");
  if (options.stop_epoch == 0) return names;
  if (evaluated.best) names.push_back(fmt::format("best_stg{}", state.stage));
  if (state.stage == 1 && evaluated.best) state.base_step = evaluated.step;
  if (state.stage == 1 && evaluated.counts) {
    state.no_better = evaluated.best && evaluated.gains ? 0 : state.no_better + 1;
  }
  if (state.stage == 1 || !evaluated.counts || !options.roll_back) return names;
  state.roll_back = !is_better(evaluated.metric, state.rival);
  state.rival = state.roll_back ? std::nullopt : std::optional(evaluated.metric);
  return names;
}

StageMove next_move(const TrainConfig::Stages& options, const StageState& state, std::int64_t epoch) {
  if (options.stop_epoch == 0) return StageMove::kNone;
  const bool tired = options.patience > 0 && state.no_better >= options.patience;
  if (state.stage == 1) return tired || epoch >= options.stop_epoch ? StageMove::kRefresh : StageMove::kNone;
  return state.roll_back ? StageMove::kRollBack : StageMove::kNone;
}

void make_move(const TrainConfig::Stages& options, StageMove move, std::int64_t epoch,
               const std::optional<Metric>& best, StageState& state) {
  if (move == StageMove::kRefresh) {
    state.stage = 2;
    state.begin_epoch = epoch;
    state.decay = options.ema_restart_decay;
    state.rival = best;
  }
  if (move == StageMove::kRollBack) {
    state.decay = std::max(0.0, state.decay - options.ema_decay_step);
    state.roll_back = false;
  }
}

std::int64_t last_epoch(const TrainConfig& config, const StageState& state) {
  if (state.stage == 1 || config.stages.epochs == 0) return config.epochs;
  return std::min(config.epochs, state.begin_epoch + config.stages.epochs);
}

void add_stages(const StageState& stages, StateDict& state) {
  if (stages.stage == 1 && stages.base_step == 0) return;
  state["stages.stage"] = stages.stage;
  state["stages.base_step"] = stages.base_step;
  state["stages.decay"] = stages.decay;
  state["stages.roll_back"] = stages.roll_back;
  state["stages.no_better"] = stages.no_better;
  state["stages.begin_epoch"] = stages.begin_epoch;
  if (!stages.rival) return;
  state["stages.rival.metric"] = stages.rival->name;
  state["stages.rival.value"] = stages.rival->value;
  state["stages.rival.lower_is_better"] = stages.rival->lower_is_better;
}

StageState stages_of(const StateDict& state) {
  StageState stages;
  if (state.count("stages.stage") == 0) return stages;
  stages.stage = count_entry(state, "stages.stage");
  if (stages.stage != 1 && stages.stage != 2) {
    throw DataError(
        fmt::format("the checkpoint's state 'run' says stages.stage is {}; valid values are 1 and 2", stages.stage),
        or_only_weights("use another checkpoint"));
  }
  stages.base_step = count_entry(state, "stages.base_step");
  stages.decay = entry<double>(state, "stages.decay");
  stages.roll_back = entry<bool>(state, "stages.roll_back");
  // Older checkpoints lack these entries.
  if (state.count("stages.no_better") != 0) stages.no_better = count_entry(state, "stages.no_better");
  if (state.count("stages.begin_epoch") != 0) stages.begin_epoch = count_entry(state, "stages.begin_epoch");
  if (state.count("stages.rival.metric") == 0) return stages;
  stages.rival = Metric{.name = entry<std::string>(state, "stages.rival.metric"),
                        .value = entry<double>(state, "stages.rival.value"),
                        .lower_is_better = entry<bool>(state, "stages.rival.lower_is_better")};
  return stages;
}

}  // namespace lockstep::train
