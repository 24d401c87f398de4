// SPDX-License-Identifier: Apache-2.0
// Removes files without reporting a failure.
#pragma once

#include <exception>
#include <filesystem>

#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"

namespace lockstep::checkpoint {

inline void remove_quietly(FileSystem& files, const std::filesystem::path& path) noexcept {
  try {
    files.remove(path);
  } catch (const std::exception& error) {
    log::debug("{}", error.what());
  }
}

}  // namespace lockstep::checkpoint
