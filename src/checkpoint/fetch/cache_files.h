// SPDX-License-Identifier: Apache-2.0
// The cache's folders and files: the user's own, or refused. If another user could write there, that user would choose
// the data of a training.
#pragma once

#include <filesystem>

#include "lockstep/base/file_system.h"

namespace lockstep::checkpoint {

/// Creates both folders if they are missing, readable only by their owner. Throws: UsageError if one belongs to another
/// user (root is trusted), or others may write to it; IoError.
void make_cache_folders(const std::filesystem::path& cache, const std::filesystem::path& folder);

/// Opens a file of the cache to read and write; creates it if it is missing. It must be a regular file of this user and
/// no link. Throws: DataError if it is not; IoError with `hint`.
[[nodiscard]] UniqueFd open_cache_file(const std::filesystem::path& path, int flags, const char* hint);

/// Returns false if the path is missing. Throws: DataError if it is not a file of this user or root.
[[nodiscard]] bool has_cache_file(const std::filesystem::path& path);

}  // namespace lockstep::checkpoint
