// SPDX-License-Identifier: Apache-2.0
// The parts of the loss: cross entropy of labels and of pseudo-labels, entropy weighted by the distance maps, and
// LoRM's loss.
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

/// The weights of the parts; a part with weight 0 is not computed.
struct LossOptions {
  double segmentation = 1;       ///< cross entropy of the labels
  double pseudo = 1;             ///< cross entropy of the pseudo-labels
  double distance_scribble = 1;  ///< entropy, weighted by the distances from scribbles
  double distance_class = 1;     ///< entropy, weighted by the distances from contours
  double lorm = 1;
  double label_smoothing = 0;  ///< fraction of a pseudo-label's weight that is spread over all classes
};

/// The weighted terms "segmentation", "pseudo", "distance_scribble", "distance_class" and "lorm". A term is omitted if
/// its weight is 0, if `planes` lacks its map, or, for lorm, if the outputs lack it.
///
/// Logits are upsampled bilinearly to the target's size (align_corners). Cross entropies are means over the pixels with
/// a class. The distance terms are sum(D / 255 H) divided by the number of nonzero summands, with H the entropy of a
/// pixel's classes and D the map. A term without such pixels is exactly 0, and still part of the graph.
///
/// On a CPU, in float32, a kernel computes the terms without ever storing the upsampled logits: backward recomputes
/// them, row by row. On other devices and for float64, plain_losses() computes the terms.
///
/// Shapes: the outputs' "logits" [B, C, h, w]; target uint8 [B, planes.count(), H, W].
/// Throws: DataError for a label that is not a class, on a CPU; UsageError for shapes that do not match and for second
///         derivatives.
[[nodiscard]] std::vector<LossTerm> losses(const Outputs& outputs, const at::Tensor& target, const Planes& planes,
                                           const LossOptions& options);

/// Computes the same terms from the formulas, with libtorch's operators.
[[nodiscard]] std::vector<LossTerm> plain_losses(const Outputs& outputs, const at::Tensor& target, const Planes& planes,
                                                 const LossOptions& options);

/// The inputs of fused_losses(): all maps of a batch.
struct FusedMaps {
  at::Tensor target;                           ///< uint8 [B, planes, H, W], on the CPU; labels are classes or 255
  std::array<std::int64_t, kLossMaps> places;  ///< plane of each map; -1 if the term is omitted
  double smoothing = 0;
};

/// The terms before weighting, float32 [kLossMaps]; an omitted term is 0.
/// Shapes: logits float32 or bfloat16 [B, C, h, w], on the CPU.
/// Throws: UsageError for a second derivative.
[[nodiscard]] at::Tensor fused_losses(const at::Tensor& logits, const FusedMaps& maps);

}  // namespace lockstep::segmentation
