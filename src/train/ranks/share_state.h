// SPDX-License-Identifier: Apache-2.0
// One rank reads for all: sends a whole state from rank 0.
#pragma once

#include <optional>
#include <string>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/comm/job.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/tensor/state_dict.h"

namespace lockstep::train {

/// Returns rank 0's `state` on every rank, bit for bit; the argument of other ranks is ignored.
///
/// Collective: yes.  Blocks: yes.  Cost: the bytes of its tensors.
[[nodiscard]] StateDict share_state(const StateDict& state, ProcessGroup& group);

/// Reads one state of `checkpoint`, which rank 0 has, and returns it on every rank; empty if there is no such state.
/// The memory of one state at a time is enough for a whole checkpoint.
///
/// Collective: yes.  Blocks: yes, while rank 0 reads without the limit of a collective.
/// Throws: on every rank, DataError if the file is torn; IoError.
[[nodiscard]] StateDict share_state_of(const Job& job, const std::optional<Checkpoint>& checkpoint,
                                       const std::string& name);

}  // namespace lockstep::train
