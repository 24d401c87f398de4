// SPDX-License-Identifier: Apache-2.0
#include "detection/model/losses.h"

#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/xlogy.h>
#include <ATen/TensorOperators.h>

#include <vector>

namespace lockstep::detection {
namespace {

/// Views [..., 4 R] as [..., 4, R].
at::Tensor by_side(const at::Tensor& corners) {
  std::vector<std::int64_t> shape = corners.sizes().vec();
  shape.back() /= 4;
  shape.insert(shape.end() - 1, 4);
  return corners.reshape(shape);
}

}  // namespace

at::Tensor class_loss(const at::Tensor& logits, const at::Tensor& quality, const at::Tensor& positive,
                      const ClassLossOptions& options) {
  const at::Tensor elsewhere = at::sigmoid(logits.detach()).pow(options.gamma) * (1 - positive);
  if (options.matchability) {
    return at::binary_cross_entropy_with_logits(logits, quality.pow(options.gamma), elsewhere + positive, {},
                                                at::Reduction::None);
  }
  return at::binary_cross_entropy_with_logits(logits, quality, options.alpha * elsewhere + quality, {},
                                              at::Reduction::None);
}

at::Tensor bbox_loss(const at::Tensor& boxes, const at::Tensor& targets) { return (boxes - targets).abs().sum(-1); }

at::Tensor fgl_loss(const at::Tensor& corners, const SideBins& sides, const at::Tensor& iou) {
  const at::Tensor logs = at::log_softmax(by_side(corners), -1);
  const at::Tensor bins = at::stack({sides.left, sides.left + 1}, -1);
  const at::Tensor shares = at::stack({sides.left_share, sides.right_share}, -1);
  const at::Tensor entropy = -(logs.gather(-1, bins) * shares).sum(-1);
  return entropy.sum(-1) * iou;
}

at::Tensor ddf_loss(const at::Tensor& corners, const at::Tensor& teacher, double temperature) {
  const at::Tensor goal = at::log_softmax(by_side(teacher.detach()) / temperature, -1);
  const at::Tensor now = at::log_softmax(by_side(corners) / temperature, -1);
  return (goal.exp() * (goal - now)).sum(-1).mean(-1) * (temperature * temperature);
}

}  // namespace lockstep::detection
