// SPDX-License-Identifier: Apache-2.0
// What a save by one process and a save by many have in common: how an attempt begins, how it ends, and what its error
// says.
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

inline constexpr int kAttempts = 3;  // after a failed fsync all is written again, to new files

/// One save: the folder and the content.
struct SaveTarget {
  std::filesystem::path folder;  ///< the run's "checkpoints" folder
  CheckpointMeta meta;
};

/// Creates the run's folder, removes what dead writers left, and creates the folder to write to.
/// Throws: UsageError (a negative step, an invalid name), IoError.
[[nodiscard]] std::unique_ptr<Staging> open_staging(FileSystem& files, const SaveTarget& target,
                                                    const Content& content);

/// Gives the files in `staging` their name, with a manifest. `placed` is as in Staging::place().
/// Returns: the step folder, once it is durable. Throws: IoError, SyncError, UsageError.
std::filesystem::path place_content(Staging& staging, const CheckpointMeta& meta, int world_size,
                                    const std::map<std::string, FileDigest>& digests, bool& placed);

/// Runs the whole protocol for a process that saves alone. Blocks, throws: as commit_checkpoint().
std::filesystem::path commit_alone(FileSystem& files, const SaveTarget& target, const Content& content);

/// Returns `why`, and for a disk error also the step, the room that the disk lacks and what to do. Call it after the
/// written files were removed, when their room is free again.
[[nodiscard]] FailureRecord not_saved(const FailureRecord& why, const SaveTarget& target, const Content& content);

/// Returns `why`, that values are not finite, with the step, the checkpoint that a run can go on from, and what to look
/// at.
[[nodiscard]] FailureRecord refused(FileSystem& files, const FailureRecord& why, const SaveTarget& target);

}  // namespace lockstep::checkpoint
