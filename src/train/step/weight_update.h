// SPDX-License-Identifier: Apache-2.0
// WeightUpdate: turns gradients into weights, with loss scaling, clipping and the optimizer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/comm/job.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/train/train_config.h"
#include "train/step/not_finite.h"
#include "train/task/task_net.h"

namespace lockstep::train {

/// Owned by the training thread. Lifetime: config outlives it, and the model outlives the optimizer.
class WeightUpdate {
 public:
  WeightUpdate(const Job& job, const TrainConfig& config);

  /// Returns true if clipping needs the norm of the reduced gradients and each rank has all of them.
  [[nodiscard]] bool counts_norm() const;
  /// Creates the optimizer. Collective: yes, if it is sharded.
  void build(const Job& job, DistributedDataParallel<TaskNet>& model);

  /// Clips and updates the weights. Collective: yes, if the optimizer is sharded or the loss is scaled.
  /// Returns: false if every rank skipped the step because a gradient was not finite and the loss is scaled.
  /// Throws: NonFiniteGradient, on every rank, if a gradient is not finite, the loss is not scaled and the norm is
  ///         needed (clip_norm, check_gradients). On a GPU it does not wait for the norm: the next update() or
  ///         require_last_finite() throws the error.
  bool update(double lr);
  /// Checks the gradients of the last update() if that has not been done yet. Throws: NonFiniteGradient.
  void require_last_finite();

  /// Returns the digest of the last update(), for this rank's part if the optimizer is sharded. The gradients' digest
  /// is 0 if the step was skipped. None if TrainConfig::digests is off.
  [[nodiscard]] const std::optional<UpdateDigest>& digest() const { return digest_; }

  /// Valid after build().
  [[nodiscard]] Optimizer& optimizer() const { return *optimizer_; }
  [[nodiscard]] bool has_optimizer() const { return optimizer_ != nullptr; }
  [[nodiscard]] GradScaler& scaler() { return scaler_; }
  /// Returns the scale of the last update()'s loss; none if the loss is not scaled.
  [[nodiscard]] std::optional<double> loss_scale() const { return loss_scale_; }
  /// Returns the message about unusual gradients in the last update() (TrainConfig::check_gradients), once; "" if none.
  [[nodiscard]] std::string take_outlier() { return std::exchange(outlier_, ""); }

 private:
  void require_finite(double norm);
  /// Returns true if the norm stays on the GPU, because only the clip factor needs it.
  [[nodiscard]] bool clips_on_device() const;
  [[nodiscard]] double factor();
  [[nodiscard]] at::Tensor factor_on_device();

  const TrainConfig& config_;
  DistributedDataParallel<TaskNet>* model_ = nullptr;
  std::unique_ptr<Optimizer> optimizer_;
  GradScaler scaler_;
  std::optional<double> loss_scale_;
  std::optional<UpdateDigest> digest_;
  NormWatch norms_;
  LateNorms late_norms_;
  std::string outlier_;
};

}  // namespace lockstep::train
