// SPDX-License-Identifier: Apache-2.0
// Batch norm that can compute its statistics over all replicas of a run. lockstep::sync_batch_norm()
// (parallel/sync_batch_norm.h) connects the replicas; this header does not depend on them.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>
#include <torch/nn/modules/batchnorm.h>

#include <cstddef>
#include <memory>
#include <ostream>
#include <utility>

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// Sums a layer's statistics over the replicas of a run.
class StatisticsSync {
 public:
  virtual ~StatisticsSync() = default;

  /// Returns the number of replicas that share statistics; 1 means that there is nothing to sum.
  [[nodiscard]] virtual int replicas() const = 0;

  /// Sums `values` over all replicas, in place. Every replica gets the same result, bit for bit.
  ///
  /// Collective: yes, over the replicas, in forward and inside backward.
  /// Blocks: yes.
  virtual void all_reduce(const at::Tensor& values) = 0;
};

/// The common base class of all batch norms, through which sync_batch_norm() finds them.
class SyncedStatistics {
 public:
  /// Sets the object that sums over the replicas. If it is null, the statistics cover only this replica's batch.
  void set_statistics_sync(std::shared_ptr<StatisticsSync> sync) { sync_ = std::move(sync); }
  /// Returns the object that sums over the replicas; null if the layer is not synced.
  [[nodiscard]] const std::shared_ptr<StatisticsSync>& statistics_sync() const noexcept { return sync_; }

 protected:
  SyncedStatistics() = default;
  SyncedStatistics(const SyncedStatistics&) = default;
  SyncedStatistics(SyncedStatistics&&) = default;
  SyncedStatistics& operator=(const SyncedStatistics&) = default;
  SyncedStatistics& operator=(SyncedStatistics&&) = default;
  ~SyncedStatistics() = default;

 private:
  std::shared_ptr<StatisticsSync> sync_;
};

namespace detail {

/// A layer's tensors and state at the time of a call.
struct BatchNormCall {
  const at::Tensor& weight;
  const at::Tensor& bias;
  at::Tensor& running_mean;
  at::Tensor& running_var;
  at::Tensor& num_batches_tracked;
  const torch::nn::BatchNormOptions& options;
  bool training;
};

[[nodiscard]] at::Tensor batch_norm(const at::Tensor& input, const BatchNormCall& call,
                                    const std::shared_ptr<StatisticsSync>& sync);
void check_dimensions(const at::Tensor& input, std::size_t dimensions);
void print(std::ostream& stream, std::size_t dimensions, const torch::nn::BatchNormOptions& options);

}  // namespace detail

/// torch::nn::BatchNorm with the same options and state dict. Unless synced, its results are bit for bit the same.
///
/// When synced, a training forward normalises with mean and variance over the batches of all replicas, which may differ
/// in size, or be empty. Backward computes the gradient of batch norm over the concatenated batches. The gradients of
/// weight and bias are those of the replica's own batch, as DistributedDataParallel expects. Evaluation does not
/// communicate.
///
/// Collective: forward in training, and backward if the input needs a gradient; only when synced.
/// Throws: anything torch::nn::BatchNorm throws; when synced, UsageError if all replicas together have fewer than 2
///         values per channel, or for a second derivative.
/// Source: Ioffe and Szegedy, Batch Normalization, 2015.
template <std::size_t D, class Derived>
class BatchNormImpl : public torch::nn::NormImplBase<D, Derived, torch::nn::BatchNormOptions>, public SyncedStatistics {
 public:
  using torch::nn::NormImplBase<D, Derived, torch::nn::BatchNormOptions>::NormImplBase;

  /// Normalises the input. Shapes: [N, C] or [N, C, ...], as in torch. Collective: in training, if it is synced.
  at::Tensor forward(const at::Tensor& input) {
    _check_input_dim(input);
    return detail::batch_norm(input,
                              {.weight = this->weight,
                               .bias = this->bias,
                               .running_mean = this->running_mean,
                               .running_var = this->running_var,
                               .num_batches_tracked = this->num_batches_tracked,
                               .options = this->options,
                               .training = this->is_training()},
                              statistics_sync());
  }

  void pretty_print(std::ostream& stream) const override { detail::print(stream, D, this->options); }

 protected:
  void _check_input_dim(const at::Tensor& input) override { detail::check_dimensions(input, D); }
};

/// Shapes: [N, C] or [N, C, L].
class BatchNorm1dImpl final : public BatchNormImpl<1, BatchNorm1dImpl> {
 public:
  using BatchNormImpl::BatchNormImpl;
};
TORCH_MODULE(BatchNorm1d);

/// Shapes: [N, C, H, W]. The output keeps the channels-last layout.
class BatchNorm2dImpl final : public BatchNormImpl<2, BatchNorm2dImpl> {
 public:
  using BatchNormImpl::BatchNormImpl;
};
TORCH_MODULE(BatchNorm2d);

/// Shapes: [N, C, D, H, W].
class BatchNorm3dImpl final : public BatchNormImpl<3, BatchNorm3dImpl> {
 public:
  using BatchNormImpl::BatchNormImpl;
};
TORCH_MODULE(BatchNorm3d);

}  // namespace lockstep::nn

#pragma GCC visibility pop
