// SPDX-License-Identifier: Apache-2.0
// The localization rectification module: features of the foreground are to be what the whole picture's features say of
// them, and those of the background nothing. Training only.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>

#include <cstdint>

namespace lockstep::segmentation {

/// Which places of the features are foreground: 1 where labels, resized bilinearly (align_corners) as numbers, are
/// above 0. Unlabelled ones (255) count as background. Labels stay as they are.
/// Shapes: labels uint8 [B, H, W]; the result bool [B, height, width].
[[nodiscard]] at::Tensor foreground_of(const at::Tensor& labels, std::int64_t height, std::int64_t width);

/// What lorm_loss() compares; N places a picture, C channels.
struct LormInputs {
  at::Tensor features;    ///< [B, N, C]
  at::Tensor queries;     ///< [F, C] of all foreground places, one picture after the other; or [B, N, C] of all places
  at::Tensor keys;        ///< [B, N, C]
  at::Tensor gamma;       ///< a number, [1]
  at::Tensor foreground;  ///< bool [B, N], F of them true; without gradient
};

/// The mean of (x - x')^2 over what is not 0, with x' = gamma A x in the foreground and 0 elsewhere; A is the softmax
/// over the picture's N places of the cosine of query and key. 0 where nothing differs.
///
/// The gradient is computed in the forward, a block of foreground places after the other: the N x N attention never
/// stands in memory, nor is a part of it computed twice. Products are in float32 (float64 stays), under autocast in its
/// type; sums in float32 at least. Products are
/// libtorch's, whose bits depend on the number of threads as those of its convolutions do; all else does not.
/// With the queries of all places, the work does not depend on how many are foreground: on a device the host does not
/// wait for that number. All pictures are then computed together, in blocks of their places.
/// Cost:   6 products of F x N x C with a gradient, 2 without; memory of about three times the features.
/// Throws: UsageError for a second derivative.
[[nodiscard]] at::Tensor lorm_loss(const LormInputs& inputs);

/// The same from the formula, with all of the attention in memory: what tests compare with.
[[nodiscard]] at::Tensor lorm_loss_plain(const LormInputs& inputs);

/// The module: queries and keys are 1x1 convolutions of the features, C to C.
class Lorm final : public torch::nn::Module {
 public:
  explicit Lorm(std::int64_t channels);

  /// The loss, a number.
  /// Shapes: features [B, C, h, w]; labels uint8 [B, H, W].
  at::Tensor forward(const at::Tensor& features, const at::Tensor& labels);
  /// What forward() hands to lorm_loss().
  [[nodiscard]] LormInputs inputs(const at::Tensor& features, const at::Tensor& labels);

 private:
  torch::nn::Conv2d query_{nullptr};
  torch::nn::Conv2d key_{nullptr};
  at::Tensor gamma_;
};

}  // namespace lockstep::segmentation
