// SPDX-License-Identifier: Apache-2.0
// Locks keep other processes away from a folder, where its file system supports that.
#pragma once

#include <filesystem>

#pragma GCC visibility push(default)

namespace lockstep {

/// Whether a lock was taken.
enum class FileLock {
  kTaken,       ///< this process has it
  kBusy,        ///< another process has it
  kUnsupported  ///< the file system has no locks (Lustre without -o flock, some FUSE): nothing keeps other processes
                ///< away
};

/// Tries to take the lock of the open file `fd` for this process alone. The lock ends when the file is closed.
/// kUnsupported is logged once per program. Never blocks.
/// Throws: IoError naming `path` and the cause.
[[nodiscard]] FileLock try_lock_file(int fd, const std::filesystem::path& path);

}  // namespace lockstep

#pragma GCC visibility pop
