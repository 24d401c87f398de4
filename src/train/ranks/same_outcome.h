// SPDX-License-Identifier: Apache-2.0
// One rank does something for all ranks, and all ranks get its outcome.
#pragma once

#include <functional>

#include "lockstep/comm/job.h"

namespace lockstep::train {

/// Runs `work` on rank 0.
///
/// Collective: yes, through the job's store. Blocks: until `work` has ended, at most a day, because it may download a
///         file. Throws: the error of `work`, on every rank, so that no rank waits for a rank that is gone; PeerError
///         if rank 0 died; TimeoutError.
void do_on_main(const Job& job, const std::function<void()>& work);

}  // namespace lockstep::train
