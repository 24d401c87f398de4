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

enum class PackFormat { kPacked, kTar };

struct PackOptions {
  std::filesystem::path out;
  PackFormat format = PackFormat::kPacked;
  std::uint64_t shard_bytes = 0;  ///< tar: begin another shard when one has reached this; 0: one shard
  PackedOptions packed = {};      ///< class_names: the source's where empty
  std::int64_t workers = 1;       ///< threads that decode
  bool skip_bad = false;          ///< leave unreadable pictures out; otherwise the first ends it
  std::function<void(std::int64_t done)> progress = {};  ///< from the calling thread
};

struct PackReport {
  std::int64_t samples = 0;
  std::uint64_t bytes = 0;
  std::vector<std::filesystem::path> files;
  std::vector<std::string> bad;  ///< why each left-out picture was
};

/// Packs all samples of `source`. On an error nothing is left behind.
/// Blocks. Throws: DataError naming the first unreadable picture; IoError; UsageError.
[[nodiscard]] PackReport pack_images(const ImageSource& source, PackOptions options);

}  // namespace lockstep

#pragma GCC visibility pop
