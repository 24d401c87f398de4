// SPDX-License-Identifier: Apache-2.0
// Dense supervision: in training, every position of the encoder predicts by itself what lies around it. Matching gives
// each object to one query only, so backbone and encoder learn slowly from it; here all positions around an object's
// middle learn from the first step on. The origin has no such part, and inference does not need it.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "detection/model/matcher.h"

namespace lockstep::detection {

/// The size, relative to the whole picture, that a position of scale `scale` assumes: 0.05 on the finest scale, doubled
/// with each coarser one.
[[nodiscard]] double anchor_size(std::int64_t scale);

/// Matches objects with positions: those within the object and at most one and a half cells from its middle, and the
/// cell that holds its middle. They are on the scale whose size is nearest to the object's. A position shared by
/// several objects belongs to the smallest.
/// Shapes: sizes int64 [scales, 2]: height and width; the query of a Pair is a position, counted through all scales.
[[nodiscard]] Matches dense_matches(const at::Tensor& sizes, const PaddedTargets& targets);

}  // namespace lockstep::detection
