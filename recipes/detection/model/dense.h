// SPDX-License-Identifier: Apache-2.0
// Dense supervision: in training every position of the encoder says by itself what lies around it. Matching gives each
// object to one query only, which teaches backbone and encoder slowly; here all positions around an object's middle
// learn from the first step on. The origin has none; the network in use does not need it.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "detection/model/matcher.h"

namespace lockstep::detection {

/// The size that a position of scale `scale` assumes, of the whole picture's: 0.05 on the finest, twice that on the
/// next.
[[nodiscard]] double anchor_size(std::int64_t scale);

/// Which positions answer for which objects: those within the object and at most one and a half cells from its middle,
/// and the cell that its middle is in; on the scale whose size is nearest to its own. Of several objects at a position
/// it is the smallest one's.
/// Shapes: sizes int64 [scales, 2]: height and width; a Pair's query is a position, all scales one after another.
[[nodiscard]] Matches dense_matches(const at::Tensor& sizes, const PaddedTargets& targets);

}  // namespace lockstep::detection
