// SPDX-License-Identifier: Apache-2.0
// The commit protocol on disk: fills a folder next to its target, makes it durable and renames it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/manifest.h"
#include "lockstep/tensor/state_part.h"

namespace lockstep::checkpoint {

/// The content that one rank writes.
struct Content {
  std::map<std::string, StatePart> parts;  ///< parts by state
  CheckpointTexts texts;                   ///< those of rank 0 are written
  std::function<void()> check = nullptr;   ///< the same as ShardedContent::check
  FiniteCheck finite = {};
};

/// The writing rank, and the number of ranks.
struct Share {
  int rank = 0;
  int world_size = 1;
};

/// Writes and syncs the files of `content` in `folder`; returns their digests by file name. Ignores the texts of all
/// ranks but rank 0.
/// Throws: IoError, SyncError, UsageError (an entry that cannot be saved).
[[nodiscard]] std::map<std::string, FileDigest> write_content(FileSystem& files, const std::filesystem::path& folder,
                                                              const Content& content, const Share& share);

/// A temporary folder. The destructor removes it unless place() has renamed it.
class Staging {
 public:
  /// Throws: IoError.
  Staging(FileSystem& files, const std::filesystem::path& folder, std::int64_t step);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Writes the manifest and renames the folder into place. If a folder with the final name has the same content, that
  /// folder stays and this one is removed; if it has other content, it is set aside. `placed` is set once the folder
  /// has the name. If `placed` is already set, the folder with that name comes from an attempt of the same save that
  /// was not durable, and is replaced.
  /// Returns: the step folder, once it is durable. Throws: IoError, SyncError; no data are lost when it throws.
  std::filesystem::path place(const Manifest& manifest, bool& placed);

 private:
  bool take_the_name(const std::filesystem::path& target, const Manifest& manifest);
  void replace(const std::filesystem::path& target);

  FileSystem& files_;
  std::filesystem::path folder_;
  std::filesystem::path path_;
};

}  // namespace lockstep::checkpoint
