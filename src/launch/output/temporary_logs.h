// SPDX-License-Identifier: Apache-2.0
// The folders lockstep-logs-XXXXXX of runs without a folder for logs. Those of the newest failed runs stay. A run holds
// a lock on its folder, so that no other launcher removes it.
#pragma once

#include <filesystem>

#include "lockstep/base/file_system.h"

namespace lockstep::launch {

constexpr std::size_t kKeptLogs = 20;

struct TemporaryLogs {
  std::filesystem::path folder;
  UniqueFd lock;  ///< lock of the folder itself; other launchers leave it alone while this is open
};

/// Makes a folder in `parent` for this user alone. Throws: IoError.
[[nodiscard]] TemporaryLogs make_temporary_logs(const std::filesystem::path& parent);

/// Removes this user's folders that are neither held by a run nor among the `kept` newest; follows no links. A folder
/// that cannot be removed stays.
void prune_temporary_logs(const std::filesystem::path& parent, std::size_t kept = kKeptLogs) noexcept;

}  // namespace lockstep::launch
