// SPDX-License-Identifier: Apache-2.0
// Computes the XXH3-128 of files as they are written. It detects torn writes and flipped bits, but not an attacker's
// changes.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/manifest.h"

struct XXH3_state_s;

namespace lockstep::checkpoint {

/// Returns the size and hash of `content`.
[[nodiscard]] FileDigest digest_of(std::string_view content);

/// Does the same as digest_of() for content that arrives in pieces.
class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  void add(const void* data, std::size_t size);
  [[nodiscard]] FileDigest digest() const;

 private:
  XXH3_state_s* state_;
  std::uint64_t bytes_ = 0;
};

/// A file that computes the digest of its content.
class HashingFile {
 public:
  explicit HashingFile(std::unique_ptr<WritableFile> file);

  /// Appends bytes. Throws: IoError.
  void append(const void* data, std::size_t size);
  /// Syncs the bytes to the disk, and returns the digest. Throws: IoError.
  [[nodiscard]] FileDigest finish();

 private:
  std::unique_ptr<WritableFile> file_;
  ContentHash hash_;
};

}  // namespace lockstep::checkpoint
