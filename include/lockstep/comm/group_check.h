// SPDX-License-Identifier: Apache-2.0
// Checks that the results of a group's collectives can be relied on.
#pragma once

#include "lockstep/comm/process_group.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Throws if the group has failed. Work::wait() on a GPU tensor makes the stream wait, not the host, so after an abort
/// a rank may continue with an incomplete result. Code that keeps a result (a checkpoint) calls this after the host has
/// read it: if it does not throw, the result is complete.
///
/// Collective: no. Blocks: no. Thread-safe: yes.
/// Throws: the failure of `group`, or of a group that was split from it, if this rank knows of one.
void check_group(ProcessGroup& group);

}  // namespace lockstep

#pragma GCC visibility pop
