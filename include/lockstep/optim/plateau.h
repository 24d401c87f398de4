// SPDX-License-Identifier: Apache-2.0
// A learning rate that falls when a metric stops improving: a pure function of the metrics so far, via a small state
// that is saved in checkpoints.
#pragma once

#include <cstdint>
#include <optional>

#pragma GCC visibility push(default)

namespace lockstep {

/// The options of a plateau schedule, with the defaults of torch.optim.lr_scheduler.ReduceLROnPlateau.
struct PlateauOptions {
  double factor = 0.1;          ///< factor applied to the learning rate at each reduction
  std::int64_t patience = 10;   ///< allowed number of consecutive metrics without improvement
  double threshold = 1e-4;      ///< difference by which a metric must be better than the best
  bool relative = true;         ///< the threshold is a fraction of the best metric; false: an absolute difference
  std::int64_t cooldown = 0;    ///< number of metrics after a reduction that never count as bad
  double min_lr = 0;            ///< lower limit of the rate
  double eps = 1e-8;            ///< a reduction by this or less is skipped
  bool lower_is_better = true;  ///< a smaller metric is better; false: a larger one
};

/// The state of a plateau schedule between metrics.
struct PlateauState {
  double lr = 1e-3;            ///< the learning rate until the next metric
  std::optional<double> best;  ///< the best metric so far; none: no metric yet
  std::int64_t bad = 0;        ///< consecutive metrics without improvement
  std::int64_t cooldown = 0;   ///< metrics until bad ones count again
};

/// Returns the state after one more metric. NaN is never better.
/// Throws: UsageError unless 0 < factor < 1.
/// Example: state = after_metric({.patience = 3}, state, evaluation_loss); optimizer.set_lr(state.lr);
[[nodiscard]] PlateauState after_metric(const PlateauOptions& options, PlateauState state, double metric);

}  // namespace lockstep

#pragma GCC visibility pop
