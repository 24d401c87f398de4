// SPDX-License-Identifier: Apache-2.0
// Sends a whole state from rank 0 to all ranks, so that only one rank has to read it.
#pragma once

#include <optional>
#include <string>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/comm/job.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/tensor/state_dict.h"

namespace lockstep::train {

/// Returns rank 0's `state` on every rank, bit for bit; the other ranks' arguments are ignored.
///
/// Collective: yes.  Blocks: yes.  Cost: sends the bytes of the tensors.
[[nodiscard]] StateDict share_state(const StateDict& state, ProcessGroup& group);

/// Reads one state of `checkpoint`, which rank 0 has, and returns it on every rank; empty if there is no such state.
/// Reading a checkpoint state by state takes memory for only one state at a time.
///
/// Collective: yes.  Blocks: yes, while rank 0 reads, without the time limit of a collective.
/// Throws: on every rank, DataError if the file is torn; IoError.
[[nodiscard]] StateDict share_state_of(const Job& job, const std::optional<Checkpoint>& checkpoint,
                                       const std::string& name);

}  // namespace lockstep::train
