// SPDX-License-Identifier: Apache-2.0
// The state of a run apart from its tensors: its position and its results. It is saved as the state "run", and does not
// depend on time, host, paths or world size.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "lockstep/optim/plateau.h"
#include "lockstep/tensor/state_dict.h"
#include "lockstep/train/task.h"
#include "train/plan/stages.h"

namespace lockstep::train {

/// The position of a run. It has no random state, because a batch's random numbers are a function of the seed, the
/// replica and the batch number.
struct RunState {
  std::int64_t step = 0;     ///< optimizer steps done so far
  std::int64_t epoch = 0;    ///< epoch of the next batch
  std::int64_t batch = 0;    ///< number of the next batch in that epoch, on every replica
  std::int64_t samples = 0;  ///< samples of the training set
  double loss_sum = 0;       ///< sum of the losses of the epoch so far
  std::int64_t loss_count = 0;
  std::int64_t skipped = 0;            ///< steps skipped since the start of the run because a gradient was not finite
  std::int64_t epoch_skipped = 0;      ///< steps skipped in the epoch so far
  std::set<std::int64_t> bad_samples;  ///< indices of samples skipped since the start of the run, on any replica
  std::optional<Metric> best;          ///< the best evaluation so far
  std::int64_t best_step = 0;
  std::optional<double> best_loss;  ///< epoch's loss at that evaluation, which breaks ties between equal metrics; none
                                    ///< if from an older run
  std::optional<PlateauState> plateau;  ///< state of schedule.type plateau
  StageState stages;
  std::uint64_t digest_fold = 0;  ///< fold of the digests of all steps; 0 means no digests. It is in the checkpoint's
                                  ///< manifest, not in the state, because weights do not depend on it
  /// The number of replicas that the run started with, which lr_scaling keeps using; 0 means the current number.
  std::int64_t begun_replicas = 0;
};

[[nodiscard]] StateDict to_state(const RunState& run);

/// Throws: DataError naming the entry that is missing, has the wrong type, or is an impossible count.
[[nodiscard]] RunState run_state_of(const StateDict& state);

/// Throws: DataError if the position is past the last batch of its epoch.
void require_place(const RunState& run, std::int64_t batches_per_epoch);

/// Returns true if `metric` is better than the best so far, or has a different name. Any number is better than NaN.
[[nodiscard]] bool is_better(const Metric& metric, const std::optional<Metric>& best);

/// Returns true if an evaluation becomes the run's best: its metric is better, or equal and the loss is not higher.
/// Among equal evaluations, the last one wins, because the model has trained for longer.
[[nodiscard]] bool replaces_best(const RunState& run, const Metric& metric, std::optional<double> loss);

/// Returns a hint: "FIRST, or load only the weights: --init-from instead of --resume".
[[nodiscard]] std::string or_only_weights(std::string_view first);

/// Returns a hint about a checkpoint of another program.
[[nodiscard]] std::string only_own_runs();

/// Returns a required entry of a checkpoint's state. Throws: DataError naming the entry.
template <class T>
[[nodiscard]] T entry(const StateDict& state, const std::string& name);

/// Returns a count entry. Throws: DataError naming it if it is missing, below 0 or absurd.
[[nodiscard]] std::int64_t count_entry(const StateDict& state, const std::string& name);

}  // namespace lockstep::train
