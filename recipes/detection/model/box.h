// SPDX-License-Identifier: Apache-2.0
// Box arithmetic, and boxes as distributions: each side is an expectation over bins of distances from a reference box.
// Shapes: boxes [..., 4]; R bins per side.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep::detection {

/// Converts all types except float64 to float32, for computations for which bfloat16 is too coarse.
[[nodiscard]] at::Tensor at_least_float(const at::Tensor& x);

/// Converts centre and size to corners (left, top, right, bottom). With `clamp`, a size below 0 counts as 0.
[[nodiscard]] at::Tensor to_corners(const at::Tensor& boxes, bool clamp = false);

/// The number whose sigmoid is `p`, with `p` clamped to [eps, 1 - eps].
[[nodiscard]] at::Tensor inverse_sigmoid(const at::Tensor& p, double eps = 1e-5);

struct Overlap {
  at::Tensor iou;
  at::Tensor giou;  ///< generalised IoU, above -1; the farther apart the boxes, the lower
};

/// Returns the overlap of `a` with `b`, both as corners; the shapes broadcast. A box without area, or whose right side
/// is left of its left side, has area 0. All results are finite.
[[nodiscard]] Overlap overlap(const at::Tensor& a, const at::Tensor& b);

/// The layout of the bins of distances.
struct BinOptions {
  std::int64_t reg_max = 32;  ///< number of bins minus 1: even, at least 4
  double reg_scale = 4;
  double up = 0.5;
};

/// W(n), the distance of each bin [R], in units of the reference box's size / reg_scale. The bins are finest in the
/// middle: with U = up * reg_scale and s = (U + 1)^(2 / (reg_max - 2)) they are -2U, 1 - s^i (i = reg_max/2 - 1 .. 1),
/// 0, s^i - 1 (i = 1 .. reg_max/2 - 1) and 2U.
[[nodiscard]] at::Tensor bin_distances(const BinOptions& options);

/// The expected distances of the four sides. Shapes: logits [..., 4 R] to [..., 4].
[[nodiscard]] at::Tensor expected_distances(const at::Tensor& logits, const at::Tensor& bins);

/// Moves the sides of `refs` by `distances`: left = cx - (reg_scale/2 + d) * w / reg_scale, and so on.
[[nodiscard]] at::Tensor moved(const at::Tensor& refs, const at::Tensor& distances, double reg_scale);

/// The two bins between which each side of a box lies.
struct SideBins {
  at::Tensor left;         ///< int64 [M, 4]: the lower bin; the upper bin is left + 1
  at::Tensor left_share;   ///< float32 [M, 4]: the lower bin's weight; beyond the bins, the outermost bin has weight 1
  at::Tensor right_share;  ///< 1 - left_share
};

/// Returns the bins of `boxes` relative to `refs`, both [M, 4] as centre and size.
[[nodiscard]] SideBins side_bins(const at::Tensor& refs, const at::Tensor& boxes, const at::Tensor& bins,
                                 double reg_scale);

}  // namespace lockstep::detection
