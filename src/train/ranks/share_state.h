// SPDX-License-Identifier: Apache-2.0
// One rank reads, all ranks know: a whole state sent from rank 0.
#pragma once

#include "lockstep/comm/process_group.h"
#include "lockstep/tensor/state_dict.h"

namespace lockstep::train {

/// Returns rank 0's `state` on every rank, bit for bit; the argument of other ranks is ignored.
///
/// Collective: yes.  Blocks: yes.  Cost: the bytes of its tensors.
[[nodiscard]] StateDict share_state(const StateDict& state, ProcessGroup& group);

}  // namespace lockstep::train
