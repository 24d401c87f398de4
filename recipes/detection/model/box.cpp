// SPDX-License-Identifier: Apache-2.0
#include "detection/model/box.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/log.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <vector>

namespace lockstep::detection {
namespace {

at::Tensor first_two(const at::Tensor& boxes) { return boxes.narrow(-1, 0, 2); }
at::Tensor last_two(const at::Tensor& boxes) { return boxes.narrow(-1, 2, 2); }

/// Width times height; a negative side counts as 0.
at::Tensor area(const at::Tensor& sides) {
  const std::vector<at::Tensor> positive = sides.clamp_min(0).unbind(-1);
  return positive[0] * positive[1];
}

/// Takes the first two and the last two at once: the gradient of a single part would be a full tensor, mostly zeros.
std::vector<at::Tensor> halves(const at::Tensor& boxes) { return boxes.chunk(2, -1); }

}  // namespace

at::Tensor at_least_float(const at::Tensor& x) { return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat); }

at::Tensor to_corners(const at::Tensor& boxes, bool clamp) {
  const at::Tensor half = (clamp ? last_two(boxes).clamp_min(0) : last_two(boxes)) * 0.5;
  return at::cat({first_two(boxes) - half, first_two(boxes) + half}, -1);
}

at::Tensor inverse_sigmoid(const at::Tensor& p, double eps) {
  const at::Tensor inside = p.clamp(eps, 1 - eps);
  return at::log(inside / (1 - inside));
}

Overlap overlap(const at::Tensor& a, const at::Tensor& b) {
  // Far below the area of a pixel; keeps the ratio of two empty boxes finite.
  constexpr double kLeast = 1e-9;
  const std::vector<at::Tensor> a_halves = halves(a);
  const std::vector<at::Tensor> b_halves = halves(b);
  const at::Tensor common = area(at::minimum(a_halves[1], b_halves[1]) - at::maximum(a_halves[0], b_halves[0]));
  const at::Tensor joined = area(a_halves[1] - a_halves[0]) + area(b_halves[1] - b_halves[0]) - common;
  const at::Tensor iou = common / joined.clamp_min(kLeast);
  const at::Tensor around = area(at::maximum(a_halves[1], b_halves[1]) - at::minimum(a_halves[0], b_halves[0]));
  return {.iou = iou, .giou = iou - (around - joined) / around.clamp_min(kLeast)};
}

at::Tensor bin_distances(const BinOptions& options) {
  const double far = std::abs(options.up) * std::abs(options.reg_scale);
  const std::int64_t half = options.reg_max / 2 - 1;
  const double step = std::pow(far + 1, 2 / static_cast<double>(options.reg_max - 2));
  std::vector<double> bins = {-2 * far};
  for (std::int64_t i = half; i >= 1; --i) bins.push_back(1 - std::pow(step, static_cast<double>(i)));
  bins.push_back(0);
  for (std::int64_t i = 1; i <= half; ++i) bins.push_back(std::pow(step, static_cast<double>(i)) - 1);
  bins.push_back(2 * far);
  return at::tensor(bins).to(at::kFloat);
}

at::Tensor expected_distances(const at::Tensor& logits, const at::Tensor& bins) {
  const std::int64_t count = bins.size(0);
  std::vector<std::int64_t> shape = logits.sizes().vec();
  shape.back() = 4;
  const at::Tensor shares = at::softmax(at_least_float(logits).reshape({-1, count}), -1);
  return at::matmul(shares, bins).view(shape);
}

at::Tensor moved(const at::Tensor& refs, const at::Tensor& distances, double reg_scale) {
  const at::Tensor unit = last_two(refs) / reg_scale;
  const std::vector<at::Tensor> parts = halves(distances);
  const at::Tensor low = first_two(refs) - (parts[0] + 0.5 * reg_scale) * unit;
  const at::Tensor high = first_two(refs) + (parts[1] + 0.5 * reg_scale) * unit;
  return at::cat({(low + high) * 0.5, high - low}, -1);
}

SideBins side_bins(const at::Tensor& refs, const at::Tensor& boxes, const at::Tensor& bins, double reg_scale) {
  // A reference box of size zero would make the ratio infinite.
  const at::Tensor unit = last_two(refs).clamp_min(1e-6) / reg_scale;
  const at::Tensor corners = to_corners(boxes);
  const at::Tensor distances = at::cat({(first_two(refs) - first_two(corners)) / unit - 0.5 * reg_scale,
                                        (last_two(corners) - first_two(refs)) / unit - 0.5 * reg_scale},
                                       -1)
                                   .contiguous();
  // For each side, the last bin whose distance does not exceed that of the side.
  const at::Tensor left =
      (at::searchsorted(bins, distances, /*out_int32=*/false, /*right=*/true) - 1).clamp(0, bins.size(0) - 2);
  const at::Tensor low = bins.index({left});
  const at::Tensor high = bins.index({left + 1});
  const at::Tensor right_share = ((distances - low) / (high - low)).clamp(0, 1);
  return {.left = left, .left_share = 1 - right_share, .right_share = right_share};
}

}  // namespace lockstep::detection
