// SPDX-License-Identifier: Apache-2.0
// XXH3-128 of files, taken while they are written: a checksum against torn and rotten bytes, not against an attacker.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/manifest.h"

struct XXH3_state_s;

namespace lockstep::checkpoint {

/// Size and hash of `content`.
[[nodiscard]] FileDigest digest_of(std::string_view content);

/// A file that knows the digest of what went into it.
class HashingFile {
 public:
  explicit HashingFile(std::unique_ptr<WritableFile> file);
  ~HashingFile();
  HashingFile(const HashingFile&) = delete;
  HashingFile& operator=(const HashingFile&) = delete;

  /// Throws: IoError.
  void append(const void* data, std::size_t size);
  /// Returns the digest when the bytes are on the disk. Throws: IoError.
  [[nodiscard]] FileDigest finish();

 private:
  std::unique_ptr<WritableFile> file_;
  XXH3_state_s* state_;
  std::uint64_t bytes_ = 0;
};

}  // namespace lockstep::checkpoint
