// SPDX-License-Identifier: Apache-2.0
// Whether a disk has room for a checkpoint: for the words of an error, never to decide whether to save.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "checkpoint/save/staging.h"

namespace lockstep::checkpoint {

struct Need {
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;  ///< files and folders
};

/// Returns the room that writing it needs; headers of a few kB are not counted.
[[nodiscard]] Need need_of(const Content& content);

/// Returns " (it needs 10.4 MB, 5.2 MB are free)"; "" where the disk has the room or cannot be asked.
[[nodiscard]] std::string missing_room(const std::filesystem::path& folder, const Need& need);

}  // namespace lockstep::checkpoint
