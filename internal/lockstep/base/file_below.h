// SPDX-License-Identifier: Apache-2.0
// Reads files in a folder that others may write to, without following a link out of the folder.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/base/file_system.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Opens the regular file `path` below `root` for reading. No part of `path` may be a link or ".."; `root` itself may
/// be a link. Returns an invalid descriptor if the file is missing or not regular; a pipe does not block it.
[[nodiscard]] UniqueFd open_below(const std::filesystem::path& root, const std::filesystem::path& path);

/// Returns the content of the file; none if open_below() cannot open it, or if it has more than `most` bytes.
[[nodiscard]] std::optional<std::string> read_below(const std::filesystem::path& root,
                                                    const std::filesystem::path& path, std::size_t most);

}  // namespace lockstep

#pragma GCC visibility pop
