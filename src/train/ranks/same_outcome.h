// SPDX-License-Identifier: Apache-2.0
// One rank does something on behalf of all ranks, and all of them get the outcome.
#pragma once

#include <functional>

#include "lockstep/comm/job.h"

namespace lockstep::train {

/// Runs `work` on rank 0.
///
/// Collective: yes, through the job's store. Blocks: until `work` has finished, at most a day, since it may download.
/// Throws: the error of `work`, on every rank, so that no rank waits for a dead one; PeerError if rank 0 died;
///         TimeoutError.
void do_on_main(const Job& job, const std::function<void()>& work);

}  // namespace lockstep::train
