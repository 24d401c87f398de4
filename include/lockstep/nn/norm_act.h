// SPDX-License-Identifier: Apache-2.0
// Batch norm, dropout, ReLU and 2x2 max pooling as one layer. On a CPU, memory bandwidth limits these operations. The
// fused layer passes over memory twice in forward and twice in backward; separate layers make ten passes in all.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <torch/nn/modules/container/sequential.h>

#include <cstdint>
#include <ostream>

#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/conv.h"

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// The operations after the batch norm.
struct BatchNormReLUOptions {
  double dropout = 0;  ///< probability that a value becomes zero, between batch norm and ReLU; 0: no dropout
  bool pool = false;   ///< max pooling over 2x2 windows, stride 2
};

/// BatchNorm2d, then optional Dropout, ReLU, and optional MaxPool2d(2). The state dict is BatchNorm2d's.
///
/// Training with channels-last float32 or bfloat16 and a multiple of 8 channels uses the fused passes, on a CPU and,
/// without dropout, on a GPU (tensor/device_kernels.h). All other cases (evaluation, synced statistics) fall back to
/// libtorch's separate layers. The fused passes round a value to bfloat16 once, at the end. Dropout has its own random
/// generator, seeded from libtorch's.
///
/// Shapes: [N, C, H, W] to the same shape, or to [N, C, H/2, W/2] rounded down with pooling.
/// Cost:   the fused passes read the input twice in forward and twice in backward; dropout keeps one bit per element.
/// Throws: anything BatchNorm2d throws; UsageError for a second derivative.
class BatchNormReLU2dImpl final : public BatchNormImpl<2, BatchNormReLU2dImpl> {
 public:
  explicit BatchNormReLU2dImpl(const torch::nn::BatchNormOptions& norm, BatchNormReLUOptions then = {})
      : BatchNormImpl(norm), then_(then) {}

  /// Creates a replacement for `norm`, a BatchNorm2d of Lockstep or libtorch, with the same parameters and synced
  /// statistics. It shares the memory of the buffers.
  template <class Norm>
  BatchNormReLU2dImpl(const Norm& norm, BatchNormReLUOptions then) : BatchNormReLU2dImpl(norm.options, then) {
    if (norm.options.affine()) {
      share_parameter("weight", weight, norm.weight);
      share_parameter("bias", bias, norm.bias);
    }
    if (norm.options.track_running_stats()) {
      share_buffer(running_mean, norm.running_mean);
      share_buffer(running_var, norm.running_var);
      share_buffer(num_batches_tracked, norm.num_batches_tracked);
    }
    train(norm.is_training());
    if constexpr (requires { norm.statistics_sync(); }) set_statistics_sync(norm.statistics_sync());
  }

  /// Returns the output of all operations. Shapes: [N, C, H, W].
  at::Tensor forward(const at::Tensor& input);
  /// Adds `residual` between batch norm and ReLU, as a residual block does, in the same passes.
  /// Shapes: both [N, C, H, W]. Throws: UsageError if dropout or pooling follows.
  at::Tensor forward_with_residual(const at::Tensor& input, const at::Tensor& residual);

  /// Returns forward(conv.forward(input)). On a GPU in training the convolution omits its bias, which the batch norm
  /// would cancel anyway, so neither the addition nor the bias's gradient, which is zero, is computed. The running mean
  /// includes the bias. Shapes: input as for the convolution.
  at::Tensor forward_after(Conv2dImpl& conv, const at::Tensor& input);

  /// Returns the operations after the batch norm.
  [[nodiscard]] const BatchNormReLUOptions& then() const noexcept { return then_; }
  void pretty_print(std::ostream& stream) const override;

 private:
  at::Tensor after(const at::Tensor& input, const at::Tensor& residual);
  detail::BatchNormCall call();
  [[nodiscard]] bool is_synced() const;
  void share_parameter(const char* name, at::Tensor& target, const at::Tensor& source);
  static void share_buffer(at::Tensor& target, const at::Tensor& source);

  BatchNormReLUOptions then_;
};
TORCH_MODULE(BatchNormReLU2d);

/// Returns `layers.forward(input)`, but calls forward_after() for a convolution followed by a BatchNormReLU2d. Shapes:
/// those of the layers, each of which takes one tensor and returns one.
at::Tensor forward_layers(torch::nn::SequentialImpl& layers, const at::Tensor& input);

}  // namespace lockstep::nn

#pragma GCC visibility pop
