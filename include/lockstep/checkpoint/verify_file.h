// SPDX-License-Identifier: Apache-2.0
// Verifies a single file that has no manifest, by the checksums and rules of its own format.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/inspect.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The result of verify_file().
struct FileReport {
  std::filesystem::path path;    ///< the file
  std::string proof;             ///< "a CRC-32 of each of 21 members", or the reason why there is no proof
  std::uint64_t bytes = 0;       ///< the file's size
  std::vector<FileCheck> parts;  ///< the members of a zip file; else the file itself

  /// Returns true if the file has no problem.
  [[nodiscard]] bool ok() const;
};

/// Checks the CRC-32 of each member of a zip file (.pth, .pt, .npz, .zip), and also reads a torch file as
/// read_torch_file() does (no code is executed). Checks a .safetensors file, or an index of several, by the rules of
/// its header; that format has no checksum, so flipped bits in a tensor go undetected.
/// Throws: DataError if the file is missing or has a different format; IoError. Damage is reported, not thrown.
[[nodiscard]] FileReport verify_file(FileSystem& files, const std::filesystem::path& path);

/// Returns "weights.pth: whole (228.9 MB; a CRC-32 of each of 21 members)", or one line per problem.
[[nodiscard]] std::string to_text(const FileReport& report);

}  // namespace lockstep

#pragma GCC visibility pop
