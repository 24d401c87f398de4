// SPDX-License-Identifier: Apache-2.0
// The localization rectification module: pulls the features of the foreground towards a weighted mean of the whole
// picture's features, and those of the background towards zero. Training only.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>

#include <cstdint>

namespace lockstep::segmentation {

/// The foreground places of the features: true if the labels, as numbers resized bilinearly (align_corners), are above
/// 0 there. Unlabelled ones (255) count as background. `labels` is not changed.
/// Shapes: labels uint8 [B, H, W]; the result bool [B, height, width].
[[nodiscard]] at::Tensor foreground_of(const at::Tensor& labels, std::int64_t height, std::int64_t width);

/// The inputs of lorm_loss(); N places per picture, C channels.
struct LormInputs {
  at::Tensor features;    ///< [B, N, C]
  at::Tensor queries;     ///< [F, C] of all foreground places, one picture after another; or [B, N, C] of all places
  at::Tensor keys;        ///< [B, N, C]
  at::Tensor gamma;       ///< a number, [1]
  at::Tensor foreground;  ///< bool [B, N], F of them true; without gradient
};

/// The mean of (x - x')^2 over the squares that are not 0, with x' = gamma A x in the foreground and 0 elsewhere; A is
/// the softmax over the picture's N places of the cosine of query and key. The loss is 0 if all squares are.
///
/// Forward computes the gradient too, one block of foreground places at a time: the N x N attention is never wholly in
/// memory, and no part of it is computed twice. Products are in float32 (float64 stays), or in autocast's type; sums
/// are at least in float32. Products are libtorch's, so their bits depend on the number of threads, as those of its
/// convolutions do; the bits of all other operations do not.
/// With the queries of all places, the work does not depend on the number of foreground places, so the host does not
/// wait for a device to count them. All pictures are then computed together, in blocks of their places.
/// Cost:   6 products of F x N x C with a gradient, 2 without; memory of about three times the features.
/// Throws: UsageError for a second derivative.
[[nodiscard]] at::Tensor lorm_loss(const LormInputs& inputs);

/// The same, straight from the formula and with the whole attention in memory; tests compare with it.
[[nodiscard]] at::Tensor lorm_loss_plain(const LormInputs& inputs);

/// The module: queries and keys are 1x1 convolutions of the features, C to C.
class Lorm final : public torch::nn::Module {
 public:
  explicit Lorm(std::int64_t channels);

  /// Returns the loss, a number.
  /// Shapes: features [B, C, h, w]; labels uint8 [B, H, W].
  at::Tensor forward(const at::Tensor& features, const at::Tensor& labels);
  /// The inputs of lorm_loss() for forward().
  [[nodiscard]] LormInputs inputs(const at::Tensor& features, const at::Tensor& labels);

 private:
  torch::nn::Conv2d query_{nullptr};
  torch::nn::Conv2d key_{nullptr};
  at::Tensor gamma_;
};

}  // namespace lockstep::segmentation
