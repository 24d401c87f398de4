// SPDX-License-Identifier: Apache-2.0
// Whether what a group's collectives have left in memory may be relied on.
#pragma once

#include "lockstep/comm/process_group.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Work::wait() of a GPU's collective makes the stream wait, not the host: after an abort a rank may go on with a sum
/// that is not whole. So whoever keeps what was computed (a checkpoint) asks here first, once the host has read it:
/// where this does not throw, all of it is whole.
///
/// Collective: no. Blocks: no. Thread-safe: yes.
/// Throws: what `group`, or a part that was split from it, has failed with as far as this rank knows.
void check_group(ProcessGroup& group);

}  // namespace lockstep

#pragma GCC visibility pop
