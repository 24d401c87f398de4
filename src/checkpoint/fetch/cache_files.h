// SPDX-License-Identifier: Apache-2.0
// Rejects cache folders and files that other users could write to: such a user could choose the training data.
#pragma once

#include <filesystem>

#include "lockstep/base/file_system.h"

namespace lockstep::checkpoint {

/// Creates both folders if they are missing, readable only by their owner. Throws: UsageError if one of them belongs to
/// another user (root is trusted) or if others may write to it; IoError.
void make_cache_folders(const std::filesystem::path& cache, const std::filesystem::path& folder);

/// Opens a cache file for reading and writing; creates it if it is missing. Throws: DataError unless it is a regular
/// file of this user and not a link; IoError with `hint`.
[[nodiscard]] UniqueFd open_cache_file(const std::filesystem::path& path, int flags, const char* hint);

/// Returns true if the file exists. Throws: DataError if it does not belong to this user or root.
[[nodiscard]] bool has_cache_file(const std::filesystem::path& path);

}  // namespace lockstep::checkpoint
