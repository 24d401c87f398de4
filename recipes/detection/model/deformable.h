// SPDX-License-Identifier: Apache-2.0
// Deformable attention: every query samples a few points of each scale at positions that it predicts.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>

#include <array>
#include <cstdint>
#include <vector>

#include "detection/model/model.h"
#include "lockstep/nn/linear.h"

namespace lockstep::detection {

/// Height and width of a scale.
using ScaleSizes = std::vector<std::array<std::int64_t, 2>>;

/// Returns, for each head, the weighted sum of bilinear samples, which are zero outside the image.
///
/// `places` are (x, y) in 0..1 of the whole image, with the points of a scale next to each other; `points` is their
/// number per scale. On a CPU, if a head has a multiple of 16 channels, a float32 kernel computes the samples over
/// contiguous channels; otherwise libtorch's grid_sample computes them.
/// Shapes: values [B, T, heads * d] with the scales' rows one after another, places [B, Q, heads, P, 2], shares [B, Q,
///         heads, P]; the result [B, Q, heads * d].
/// Cost:   P * heads * 4 rows of d numbers for each query. Results do not depend on the number of threads.
[[nodiscard]] at::Tensor sample_points(const at::Tensor& values, const at::Tensor& places, const at::Tensor& shares,
                                       const ScaleSizes& sizes, const std::array<std::int64_t, 3>& points);
/// The same, using grid_sample, on any device.
[[nodiscard]] at::Tensor sample_by_grid(const at::Tensor& values, const at::Tensor& places, const at::Tensor& shares,
                                        const ScaleSizes& sizes, const std::array<std::int64_t, 3>& points);

/// Attention to points around a query's box; offsets are in units of half the box's size.
class DeformableAttention final : public torch::nn::Module {
 public:
  explicit DeformableAttention(const ModelOptions& options);

  /// Shapes: queries [B, Q, hidden], boxes [B, Q, 4] (centre and size in 0..1), memory [B, T, hidden].
  at::Tensor forward(const at::Tensor& queries, const at::Tensor& boxes, const at::Tensor& memory,
                     const ScaleSizes& sizes);

 private:
  void reset_offsets();

  std::int64_t heads_;
  std::array<std::int64_t, 3> points_;
  std::int64_t count_;  ///< number of points per head
  nn::Linear sampling_offsets_{nullptr};
  nn::Linear attention_weights_{nullptr};
  at::Tensor offset_scale_;  ///< [P, 1]: 0.5 divided by the scale's number of points
};

}  // namespace lockstep::detection
