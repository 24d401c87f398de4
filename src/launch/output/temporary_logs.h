// SPDX-License-Identifier: Apache-2.0
// The folders lockstep-logs-XXXXXX of runs without a log folder. The folders of the newest failed runs are kept. A run
// locks its folder so that no other launcher removes it.
#pragma once

#include <filesystem>

#include "lockstep/base/file_system.h"

namespace lockstep::launch {

constexpr std::size_t kKeptLogs = 20;

struct TemporaryLogs {
  std::filesystem::path folder;
  UniqueFd lock;  ///< lock of the folder: other launchers do not remove it while this is open
};

/// Creates a folder in `parent` that only this user can access. Throws: IoError.
[[nodiscard]] TemporaryLogs make_temporary_logs(const std::filesystem::path& parent);

/// Removes this user's folders that are neither locked by a run nor among the `kept` newest. It does not follow links,
/// and skips folders that cannot be removed.
void prune_temporary_logs(const std::filesystem::path& parent, std::size_t kept = kKeptLogs) noexcept;

}  // namespace lockstep::launch
