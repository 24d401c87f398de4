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

/// One save, whole: where to, and what.
struct SaveTarget {
  std::filesystem::path folder;  ///< the run's "checkpoints"
  CheckpointMeta meta;
};

/// Makes the run's folder, removes what dead writers left, and makes the folder to write to.
/// Throws: UsageError (a negative step, a name that cannot be), IoError.
[[nodiscard]] std::unique_ptr<Staging> open_staging(FileSystem& files, const SaveTarget& target,
                                                    const Content& content);

/// Gives what lies in `staging` its name, with its manifest. `placed`: as Staging::place().
/// Returns: the step folder, once it is durable. Throws: IoError, SyncError, UsageError.
std::filesystem::path place_content(Staging& staging, const CheckpointMeta& meta, int world_size,
                                    const std::map<std::string, FileDigest>& digests, bool& placed);

/// The whole protocol for a process that saves alone. Blocks, throws: as commit_checkpoint().
std::filesystem::path commit_alone(FileSystem& files, const SaveTarget& target, const Content& content);

/// `why` with the step, the room that the disk lacks and what to do, where it is an error of the disk. Called once what
/// was written is removed: only then is the room that one can count on free again.
[[nodiscard]] FailureRecord not_saved(const FailureRecord& why, const SaveTarget& target, const Content& content);

}  // namespace lockstep::checkpoint
