// SPDX-License-Identifier: Apache-2.0
// The gradient norm if each rank has only its part of the gradients.
#pragma once

#include "lockstep/comm/process_group.h"
#include "lockstep/tensor/named_tensors.h"
#include "parallel/zero/zero_layout.h"

namespace lockstep::parallel {

/// Returns the norm, bit for bit equal to grad_norm() over the whole gradients: a block of elements that is split
/// across two ranks is joined first. On a GPU, which adds in its own order, the bits may differ, and each rank reads
/// one number back.
///
/// Collective: yes.  Blocks: yes.
/// Cost: each rank reads its part once; an all-reduce of 8 bytes for each 4,096 elements, and of at most one block of
///       float64 for each boundary between two ranks' parts.
[[nodiscard]] double sharded_grad_norm(const NamedTensors& parameters, const ZeroLayout& layout, ProcessGroup& group);

}  // namespace lockstep::parallel
