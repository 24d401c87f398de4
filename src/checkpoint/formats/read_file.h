// SPDX-License-Identifier: Apache-2.0
// Reads a file once into memory that tensors can share. The memory is not zeroed, and the same pass computes the hash.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string_view>

#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/manifest.h"

namespace lockstep::checkpoint {

/// The bytes of a file, aligned to 64 bytes. Lifetime: the bytes live as long as any copy of `data`.
struct FileBytes {
  std::shared_ptr<char> data;
  std::size_t size = 0;

  [[nodiscard]] std::string_view view() const { return {data.get(), size}; }
};

/// Returns memory that is not zeroed.
[[nodiscard]] FileBytes allocate_bytes(std::size_t size);

/// Reads the whole file. `digest`, if given, receives the hash of its bytes, computed while they are in the cache.
/// Throws: DataError if the file is missing, or shrinks while it is being read; IoError.
[[nodiscard]] FileBytes read_file(FileSystem& files, const std::filesystem::path& path, FileDigest* digest = nullptr);

/// Reads and hashes a file without keeping it. Throws: anything read_file() throws.
[[nodiscard]] FileDigest hash_file(FileSystem& files, const std::filesystem::path& path);

}  // namespace lockstep::checkpoint
