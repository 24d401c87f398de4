// SPDX-License-Identifier: Apache-2.0
// The parts of the loss: cross entropy of labels and of pseudo-labels, entropy where the distance maps say that a
// pixel's class is sure, and what LoRM gave.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "lockstep/train/task.h"
#include "segmentation/model/losses_kernel.h"
#include "segmentation/synthetic/planes.h"

namespace lockstep::segmentation {

/// The weight of each part; one of 0 is left out.
struct LossOptions {
  double segmentation = 1;       ///< cross entropy of the labels
  double pseudo = 1;             ///< weight of the pseudo-labels
  double distance_scribble = 1;  ///< entropy, weighted by the distances from scribbles
  double distance_class = 1;     ///< by those from contours
  double lorm = 1;
  double label_smoothing = 0;  ///< for the pseudo-labels: this share is spread over all classes
};

/// "segmentation", "pseudo", "distance_scribble", "distance_class" and "lorm", weighted: those whose map `planes` has
/// (lorm: that are among the outputs) and whose weight is not 0.
///
/// Logits are enlarged to the target's size bilinearly (align_corners). Cross entropies are means over the pixels with
/// a class; the others are sum(D / 255 H) over how many of its summands are not 0, with H the entropy of a pixel's
/// classes and D the map. What has no such pixel is exactly 0, and still part of the graph.
///
/// On a CPU it is a kernel that never holds the enlarged logits: backward computes them again, row by row. Its numbers
/// are float32. Elsewhere, and for float64, it is plain_losses().
///
/// Shapes: outputs' "logits" [B, C, h, w]; target uint8 [B, planes.count(), H, W].
/// Throws: DataError for a label that is no class, on a CPU; UsageError for shapes that do not fit, and second
/// derivatives.
[[nodiscard]] std::vector<LossTerm> losses(const Outputs& outputs, const at::Tensor& target, const Planes& planes,
                                           const LossOptions& options);

/// The same from the formulas by libtorch's operators.
[[nodiscard]] std::vector<LossTerm> plain_losses(const Outputs& outputs, const at::Tensor& target, const Planes& planes,
                                                 const LossOptions& options);

/// What the terms of losses() are made of, all maps of a batch at once, for its kernel.
struct FusedMaps {
  at::Tensor target;                           ///< uint8 [B, planes, H, W], on the CPU; labels are classes or 255
  std::array<std::int64_t, kLossMaps> places;  ///< the maps' planes; -1: the term is left out
  double smoothing = 0;
};

/// The terms without their weights, float32 [kLossMaps]; 0 where one is left out.
/// Shapes: logits float32 or bfloat16 [B, C, h, w], on the CPU.
/// Throws: UsageError for a second derivative.
[[nodiscard]] at::Tensor fused_losses(const at::Tensor& logits, const FusedMaps& maps);

}  // namespace lockstep::segmentation
