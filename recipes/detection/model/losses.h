// SPDX-License-Identifier: Apache-2.0
// The individual losses before weighting and summing: one number per prediction. Targets have no gradient.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include "detection/model/box.h"

namespace lockstep::detection {

struct ClassLossOptions {
  bool matchability = true;  ///< true for MAL, false for VFL
  double alpha = 0.75;       ///< alpha of VFL
  double gamma = 1.5;
};

/// Returns the classification loss. `quality` is the IoU of a matched prediction at its object's class, 0 elsewhere.
/// VFL: cross-entropy with the quality as target; the weight is the quality at an object's class, otherwise alpha
/// p^gamma. MAL: cross-entropy with quality^gamma as target; the weight is 1 at an object's class, otherwise p^gamma.
/// `positive` is 1 at an object's class, so that an IoU of 0 counts. Shapes: all [..., C].
/// Source: Zhang et al., VarifocalNet, 2021; Huang et al., DEIM: DETR with Improved Matching for Fast Convergence,
/// 2025.
[[nodiscard]] at::Tensor class_loss(const at::Tensor& logits, const at::Tensor& quality, const at::Tensor& positive,
                                    const ClassLossOptions& options);

/// The sum [M] of the four absolute differences between boxes [M, 4] as centre and size.
[[nodiscard]] at::Tensor bbox_loss(const at::Tensor& boxes, const at::Tensor& targets);

/// The cross-entropy with the two bins around each side, weighted by their shares and by the box's `iou` [M], summed
/// over the four sides: [M]. Shapes: corners [M, 4 R].
/// Source: Peng et al., D-FINE: Redefine Regression Task of DETRs as Fine-grained Distribution Refinement, 2024.
[[nodiscard]] at::Tensor fgl_loss(const at::Tensor& corners, const SideBins& sides, const at::Tensor& iou);

/// The KL divergence of the distributions of `corners` from the distributions of `teacher` (without gradient), both
/// softened by `temperature`, multiplied by the square of `temperature`. Summed over bins, averaged over the four
/// sides.
/// Shapes: [..., 4 R]; `teacher` is broadcast; the result [...].
[[nodiscard]] at::Tensor ddf_loss(const at::Tensor& corners, const at::Tensor& teacher, double temperature);

}  // namespace lockstep::detection
