// SPDX-License-Identifier: Apache-2.0
// Whether the ranks of a job train on different samples: found out once, in the first step.
#pragma once

#include "lockstep/comm/process_group.h"

namespace lockstep::parallel {

/// Warns on rank 0 where every rank's first batch has the same indices, with the likely cause. Batches that no
/// DataLoader made are not known. Collective: yes.
void warn_of_equal_batches(ProcessGroup& group);

}  // namespace lockstep::parallel
