// SPDX-License-Identifier: Apache-2.0
// Pruning by one who knows which checkpoint is good.
#pragma once

#include <filesystem>
#include <vector>

#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/checkpoint.h"

namespace lockstep::checkpoint {

/// Does the same as prune_checkpoints() without looking for the newest finite one: that is `good`, and it stays.
void prune_all_but(FileSystem& files, const std::filesystem::path& folder, const Retention& retention,
                   const std::filesystem::path& good);

}  // namespace lockstep::checkpoint
