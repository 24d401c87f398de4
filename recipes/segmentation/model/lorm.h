// SPDX-License-Identifier: Apache-2.0
// The localization rectification module (LoRM): pulls the features of the foreground towards a weighted mean of the
// whole image's features, and the features of the background towards zero. Training only.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>

#include <cstdint>

namespace lockstep::segmentation {

/// The foreground positions of the features: true if the labels, resized bilinearly as numbers (align_corners), are
/// above 0 there. Unlabelled pixels (255) count as background. `labels` is not changed.
/// Shapes: labels uint8 [B, H, W]; the result bool [B, height, width].
[[nodiscard]] at::Tensor foreground_of(const at::Tensor& labels, std::int64_t height, std::int64_t width);

/// The inputs of lorm_loss(); N positions per image, C channels.
struct LormInputs {
  at::Tensor features;    ///< [B, N, C]
  at::Tensor queries;     ///< [F, C] of all foreground positions, image by image; or [B, N, C] of all positions
  at::Tensor keys;        ///< [B, N, C]
  at::Tensor gamma;       ///< a number, [1]
  at::Tensor foreground;  ///< bool [B, N], with F true values; has no gradient
};

/// The mean of (x - x')^2 over the nonzero squares, with x' = gamma A x in the foreground and 0 elsewhere; A is the
/// softmax over the image's N positions of the cosine of query and key. The loss is 0 if all squares are 0.
///
/// Forward also computes the gradient, one block of foreground positions at a time: the N x N attention is never in
/// memory as a whole, and no part of it is computed twice. Products are in float32 (float64 stays float64), or in
/// autocast's type; sums are in float32 or wider. The matrix products are libtorch's, so their last bits depend on the
/// number of threads, as those of its convolutions do; all other operations give the same bits. If the inputs have the
/// queries of all positions, the work does not depend on the number of foreground positions, so the host does not wait
/// for a device to count them, and all images are processed together, in blocks of positions.
/// Cost:   6 products of F x N x C with a gradient, 2 without; memory of about three times the features.
/// Throws: UsageError for a second derivative.
[[nodiscard]] at::Tensor lorm_loss(const LormInputs& inputs);

/// Computes the same loss directly from the formula, with the whole attention in memory; the reference for tests.
[[nodiscard]] at::Tensor lorm_loss_plain(const LormInputs& inputs);

/// The module: queries and keys are 1x1 convolutions of the features, C to C.
class Lorm final : public torch::nn::Module {
 public:
  explicit Lorm(std::int64_t channels);

  /// Returns the loss, a scalar.
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
