// SPDX-License-Identifier: Apache-2.0
// LossMeter: the loss for display, a mean over all replicas. It is reduced one step late, so that no step waits for it.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/comm/replicas.h"
#include "train/plan/stop.h"

namespace lockstep::train {

/// A number computed by a device and read by the host later.
class LateCopy {
 public:
  LateCopy() = default;
  /// Starts the copy after the current stream's earlier work. A CPU tensor is not copied.
  explicit LateCopy(const at::Tensor& tensor);

  /// Returns the copy. Blocks: until the copy is done, but not for later work of the stream.
  [[nodiscard]] const at::Tensor& get() const;

 private:
  at::Tensor host_;
  std::optional<c10::Event> copied_;
};

/// Thrown if the loss of a step is not finite.
class NonFiniteLoss : public DataError {
 public:
  NonFiniteLoss(std::int64_t step, const std::string& message, const std::string& hint)
      : DataError(message, hint), step_(step) {}
  [[nodiscard]] std::int64_t step() const noexcept { return step_; }

 private:
  std::int64_t step_;
};

/// A step's loss, averaged over all replicas. It also carries any rank's request to end the run, at no extra cost.
struct LossReading {
  std::int64_t step = 0;
  double loss = 0;                      ///< not finite only if the step was skipped
  std::vector<double> terms = {};       ///< the parts of the loss, if there are several
  StopReason stop = StopReason::kNone;  ///< why a rank asked to end the run; the same on every rank
};

/// Owned by the training thread.
class LossMeter {
 public:
  /// `block` is this rank's part of all `replicas`. Lifetime: `group` outlives the meter.
  LossMeter(ProcessGroup& group, ReplicaSpan block, int replicas) : group_(group), block_(block), replicas_(replicas) {}

  /// Takes the losses of `step` (a loss_row() for each replica of this rank) and this rank's `wish` to end the run, and
  /// starts reducing them. Returns the reading of the previous step.
  /// Collective: yes.
  /// Blocks: only if the previous step has not been reduced yet; never for the step that a GPU is still computing, if
  ///         the group transports GPU tensors itself.
  /// Throws: NonFiniteLoss, on every rank, if the mean loss of the previous step is not finite.
  std::optional<LossReading> add(std::int64_t step, const std::vector<at::Tensor>& losses,
                                 StopReason wish = StopReason::kNone);

  /// Sets the names of the parts of the loss, for errors.
  void name_terms(std::vector<std::string> names) { names_ = std::move(names); }

  /// Records that every rank skipped the pending step. A non-finite loss is then not an error and is excluded from the
  /// mean.
  void left_out() noexcept { pending_left_out_ = true; }

  /// Finishes the pending step. Collective: yes. Throws: NonFiniteLoss.
  std::optional<LossReading> flush();

  /// Returns the mean of the losses since start_mean().
  [[nodiscard]] std::optional<double> mean() const noexcept;
  /// Starts the mean from `count` losses whose sum is `sum`.
  void start_mean(double sum, std::int64_t count) noexcept;
  [[nodiscard]] double sum() const noexcept { return sum_; }
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }

 private:
  ProcessGroup& group_;
  ReplicaSpan block_;
  int replicas_;
  [[nodiscard]] std::string words(const std::vector<double>& terms) const;
  [[nodiscard]] at::Tensor with_wish(const at::Tensor& loss, StopReason wish);

  at::Tensor pending_;
  LateCopy combined_;  ///< the copy of pending_, if that is on a GPU
  Work work_;
  std::int64_t pending_step_ = 0;
  bool pending_left_out_ = false;
  at::Tensor no_wish_;  ///< zeros on the losses' device
  std::vector<std::string> names_;
  double sum_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace lockstep::train
