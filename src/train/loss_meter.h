// SPDX-License-Identifier: Apache-2.0
// The loss as it is shown: the mean over all replicas, combined one step late so that no step waits for it.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "lockstep/comm/process_group.h"

namespace lockstep::train {

/// Owned by the training thread.
class LossMeter {
 public:
  /// Lifetime: `group` outlives the meter.
  explicit LossMeter(ProcessGroup& group) : group_(group) {}

  /// Takes this replica's loss of `step` and starts combining it; finishes the one before.
  /// Collective: yes. Blocks: only where the step before has not been combined yet.
  /// Throws: DataError, on every rank, where the combined loss of the step before is not finite.
  void add(std::int64_t step, const at::Tensor& loss);

  /// Finishes what is under way. Collective: yes. Throws: as add().
  void flush();

  /// The newest combined loss.
  [[nodiscard]] std::optional<double> latest() const noexcept { return latest_; }

  /// The mean since the last call of reset_mean(), of what has been combined.
  [[nodiscard]] std::optional<double> mean() const noexcept;
  void reset_mean() noexcept;

 private:
  ProcessGroup& group_;
  at::Tensor pending_;
  Work work_;
  std::int64_t pending_step_ = 0;
  std::optional<double> latest_;
  double sum_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace lockstep::train
