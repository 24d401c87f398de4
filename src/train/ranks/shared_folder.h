// SPDX-License-Identifier: Apache-2.0
// Checks that all ranks see the same folder, at startup rather than at the first checkpoint after hours of training.
#pragma once

#include <filesystem>

#include "lockstep/comm/job.h"

namespace lockstep::train {

/// Checks that all ranks see rank 0's `folder`.
/// Collective: yes. Blocks: yes.
/// Throws: UsageError on every rank, naming the folder and the ranks and hosts that do not see rank 0's file there;
///         IoError on every rank if rank 0 cannot write there.
void require_shared_folder(const Job& job, const std::filesystem::path& folder);

}  // namespace lockstep::train
