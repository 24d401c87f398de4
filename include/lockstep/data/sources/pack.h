// SPDX-License-Identifier: Apache-2.0
// Turns any source into a packed file or into tar shards, with several threads, in the source's order. No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/data/sources/packed.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The file format that pack_images() writes.
enum class PackFormat {
  kPacked,  ///< one file, whose samples are read in place
  kTar      ///< tar shards in WebDataset's format
};

/// The options of pack_images().
struct PackOptions {
  std::filesystem::path out;                ///< the file; with several shards, the prefix of their names
  PackFormat format = PackFormat::kPacked;  ///< Lockstep's packed file, or tar shards
  std::uint64_t shard_bytes = 0;            ///< tar: size at which a shard ends; 0: one shard
  PackedOptions packed = {};                ///< options of a packed file; without class_names, the source's are used
  std::int64_t workers = 1;                 ///< threads that decode
  bool skip_bad = false;                    ///< skips unreadable images; otherwise packing stops at the first one
  std::function<void(std::int64_t done)> progress = {};  ///< receives the number of samples done, on the calling thread
};

/// The results of pack_images().
struct PackReport {
  std::int64_t samples = 0;                  ///< samples that were packed
  std::uint64_t bytes = 0;                   ///< size of all files
  std::vector<std::filesystem::path> files;  ///< the files that were written
  std::vector<std::string> bad;              ///< the reason for each image that was skipped
};

/// Packs all samples of `source`. On error it leaves no files behind.
/// Blocks: yes. Throws: DataError naming the first unreadable image; IoError; UsageError.
[[nodiscard]] PackReport pack_images(const ImageSource& source, PackOptions options);

}  // namespace lockstep

#pragma GCC visibility pop
