// SPDX-License-Identifier: Apache-2.0
// Dense supervision: in training, every position of the encoder predicts the object around it. Matching assigns each
// object to a single query, which teaches backbone and encoder slowly; here all positions around an object's centre
// learn from the first step. The original code does not have this, and inference does not need it.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "detection/model/matcher.h"

namespace lockstep::detection {

/// The size, relative to the whole image, of the anchor box at a position of scale `scale`: 0.05 on the finest scale,
/// doubled with each coarser scale.
[[nodiscard]] double anchor_size(std::int64_t scale);

/// Matches objects with positions: those within the object and at most one and a half cells from its centre, and the
/// cell that contains its centre, on the scale whose anchor size is nearest to the object's size. A position shared by
/// several objects is matched with the smallest.
/// Shapes: sizes int64 [scales, 2]: height and width; the query of a Pair is the index of a position over all scales.
[[nodiscard]] Matches dense_matches(const at::Tensor& sizes, const PaddedTargets& targets);

}  // namespace lockstep::detection
