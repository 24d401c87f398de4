// SPDX-License-Identifier: Apache-2.0
// The individual losses, before weights and sums: one number for each prediction. Targets have no gradient.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include "detection/model/box.h"

namespace lockstep::detection {

struct ClassLossOptions {
  bool matchability = true;  ///< MAL; else VFL
  double alpha = 0.75;       ///< alpha of VFL
  double gamma = 1.5;
};

/// `quality` holds the IoU of a matched prediction at its object's class, and 0 everywhere else. VFL: cross-entropy
/// with the quality as target; the weight is the quality at an object's class, otherwise alpha p^gamma. MAL:
/// cross-entropy with quality^gamma as target; the weight is 1 at an object's class, otherwise p^gamma. `positive` is 1
/// at an object's class, so that an IoU of 0 counts. Shapes: all [..., C], and the result. Source: Zhang et al.,
/// VarifocalNet, 2021; Huang et al., DEIM: DETR with Improved Matching for Fast Convergence, 2025.
[[nodiscard]] at::Tensor class_loss(const at::Tensor& logits, const at::Tensor& quality, const at::Tensor& positive,
                                    const ClassLossOptions& options);

/// The sum of the four differences, [M], of centred boxes [M, 4].
[[nodiscard]] at::Tensor bbox_loss(const at::Tensor& boxes, const at::Tensor& targets);

/// Cross-entropy with the two bins that a side lies between, each weighted by its nearness; a box counts by its `iou`
/// [M]. Summed over the four sides: [M].
/// Shapes: corners [M, 4 R].
/// Source: Peng et al., D-FINE: Redefine Regression Task of DETRs as Fine-grained Distribution Refinement, 2024.
[[nodiscard]] at::Tensor fgl_loss(const at::Tensor& corners, const SideBins& sides, const at::Tensor& iou);

/// The distance of the distributions of `corners` from those of `teacher` (no gradient): the KL divergence of both,
/// softened by `temperature`, times its square. Summed over bins; the mean of the four sides.
/// Shapes: [..., 4 R], the teacher broadcasts; the result [...].
[[nodiscard]] at::Tensor ddf_loss(const at::Tensor& corners, const at::Tensor& teacher, double temperature);

}  // namespace lockstep::detection
