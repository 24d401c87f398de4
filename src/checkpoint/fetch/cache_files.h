// SPDX-License-Identifier: Apache-2.0
// The cache's folders and files: the user's own, or refused. Whoever else may write there chooses what is trained on.
#pragma once

#include <filesystem>

#include "lockstep/base/file_system.h"

namespace lockstep::checkpoint {

/// Makes both where they are missing, readable by their owner only. Throws: UsageError where one belongs to somebody
/// else (root is trusted), or others may write to it; IoError.
void make_cache_folders(const std::filesystem::path& cache, const std::filesystem::path& folder);

/// Opens a file of the cache to read and write, made anew where it is missing; it is neither a link nor anything else
/// but a file of this user's. Throws: DataError where it is; IoError with `hint`.
[[nodiscard]] UniqueFd open_cache_file(const std::filesystem::path& path, int flags, const char* hint);

/// False where there is nothing. Throws: DataError where it is no file of this user's or root's.
[[nodiscard]] bool has_cache_file(const std::filesystem::path& path);

}  // namespace lockstep::checkpoint
