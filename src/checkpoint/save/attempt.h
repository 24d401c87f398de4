// SPDX-License-Identifier: Apache-2.0
// The common parts of saves by one process and by many: the start and end of an attempt, and the error message.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "checkpoint/save/staging.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/checkpoint.h"

namespace lockstep::checkpoint {

inline constexpr int kAttempts = 3;  // after a failed fsync everything is written again, to new files

/// The target of a save: the folder, and the facts for the manifest.
struct SaveTarget {
  std::filesystem::path folder;  ///< the run's "checkpoints" folder
  CheckpointMeta meta;
};

/// Creates the run's folder, removes leftovers of dead writers, and creates the folder to write to.
/// Throws: UsageError (a negative step, an invalid name), IoError.
[[nodiscard]] std::unique_ptr<Staging> open_staging(FileSystem& files, const SaveTarget& target,
                                                    const Content& content);

/// Adds a manifest to the files in `staging` and renames the folder into place. For `placed` see Staging::place().
/// Returns: the step folder, once it is durable. Throws: IoError, SyncError, UsageError.
std::filesystem::path place_content(Staging& staging, const CheckpointMeta& meta, int world_size,
                                    const std::map<std::string, FileDigest>& digests, bool& placed);

/// Runs the whole protocol for a process that saves on its own. Blocks and throws as commit_checkpoint() does.
std::filesystem::path commit_alone(FileSystem& files, const SaveTarget& target, const Content& content);

/// Returns `why`; for a disk error, adds the step, the missing space, and a hint for the user. Call it after the
/// written files have been removed, so that their space is free again.
[[nodiscard]] FailureRecord not_saved(const FailureRecord& why, const SaveTarget& target, const Content& content);

/// Returns `why`, the error for values that are not finite, after adding the step, the last checkpoint from which a run
/// can resume, and a hint on where to look.
[[nodiscard]] FailureRecord refused(FileSystem& files, const FailureRecord& why, const SaveTarget& target);

}  // namespace lockstep::checkpoint
