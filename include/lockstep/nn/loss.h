// SPDX-License-Identifier: Apache-2.0
// Losses that compute their gradient in the forward pass and keep nothing else: neither logits nor log-probabilities.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <torch/nn/modules/loss.h>

#include <ostream>

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// torch::nn::MultiLabelSoftMarginLoss with the same options.
///
/// On a CPU with contiguous float32 or bfloat16 logits, and targets that need no gradient, it uses a custom kernel that
/// computes in float32 and returns a float32 loss. All other cases use libtorch's loss, in float32 even for 16-bit
/// logits.
///
/// Shapes: logits and targets [..., C]; the loss is a scalar, or [...] with torch::kNone.
/// Throws: libtorch's errors; UsageError for a second derivative through the kernel.
class MultiLabelSoftMarginLossImpl final : public torch::nn::Cloneable<MultiLabelSoftMarginLossImpl> {
 public:
  explicit MultiLabelSoftMarginLossImpl(torch::nn::MultiLabelSoftMarginLossOptions chosen = {});

  void reset() override;
  /// Returns the loss, a scalar unless the reduction is none. Shapes: both [N, C].
  at::Tensor forward(const at::Tensor& logits, const at::Tensor& target);
  void pretty_print(std::ostream& stream) const override;

  torch::nn::MultiLabelSoftMarginLossOptions options;  ///< as in torch's layer
  at::Tensor weight;                                   ///< [C], or undefined
};
TORCH_MODULE(MultiLabelSoftMarginLoss);

/// torch::nn::CrossEntropyLoss with the same options: class weights, an ignored class, smoothed labels.
///
/// On a CPU with float32 or bfloat16 logits, contiguous or channels-last, and classes as targets, it uses a custom
/// kernel that computes in float32 and returns a float32 loss. All other cases, including probabilities as targets, use
/// libtorch's loss, in float32 even for 16-bit logits.
///
/// Shapes: logits [N, C] or [N, C, d1, ...], targets [N] or [N, d1, ...]; the loss is a scalar, or has the targets'
///         shape with torch::kNone.
/// Throws: libtorch's errors; DataError for a class out of range; UsageError for a second derivative through the
///         kernel.
class CrossEntropyLossImpl final : public torch::nn::Cloneable<CrossEntropyLossImpl> {
 public:
  explicit CrossEntropyLossImpl(torch::nn::CrossEntropyLossOptions chosen = {});

  void reset() override;
  /// Returns the loss, as torch::nn::CrossEntropyLoss does.
  at::Tensor forward(const at::Tensor& logits, const at::Tensor& target);
  void pretty_print(std::ostream& stream) const override;

  torch::nn::CrossEntropyLossOptions options;  ///< as in torch's layer
  at::Tensor weight;                           ///< [C], or undefined
};
TORCH_MODULE(CrossEntropyLoss);

}  // namespace lockstep::nn

#pragma GCC visibility pop
