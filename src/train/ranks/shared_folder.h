// SPDX-License-Identifier: Apache-2.0
// Whether all ranks see one folder, found out before hours of training and not at the first checkpoint.
#pragma once

#include <filesystem>

#include "lockstep/comm/job.h"

namespace lockstep::train {

/// `folder`: rank 0's.
/// Collective: yes. Blocks: yes.
/// Throws: UsageError on every rank, naming the folder and the ranks and hosts that do not see what rank 0 writes
///         there; IoError on every rank where rank 0 cannot write there.
void require_shared_folder(const Job& job, const std::filesystem::path& folder);

}  // namespace lockstep::train
