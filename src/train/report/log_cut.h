// SPDX-License-Identifier: Apache-2.0
// Removes from a run's log the lines of steps that a resumed run takes again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "lockstep/base/file_system.h"
#include "lockstep/view/run_log.h"

namespace lockstep::train {

/// The result of cut_log().
struct LogCut {
  bool replaced = false;     ///< false: every line was kept, and the file is the same
  std::int64_t damaged = 0;  ///< number of lines dropped because they are not a JSON object
};

/// Replaces the log `path` atomically by the lines that view::keep_log_up_to() keeps of it, unless it keeps all. The
/// log may have any size: memory holds a few pieces of `piece` bytes, and the longest line. Blocks: for the disk.
/// Throws: DataError if there is no such file; IoError. The log is then unchanged.
[[nodiscard]] LogCut cut_log(FileSystem& files, const std::filesystem::path& path, const view::LogPlace& place,
                             std::size_t piece = std::size_t{1} << 20U);

}  // namespace lockstep::train
