// SPDX-License-Identifier: Apache-2.0
// Parses a torch file in memory, for reading and verification.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/formats/read_file.h"
#include "lockstep/checkpoint/torch_file.h"

namespace lockstep::checkpoint {

/// Returns the file's values; tensors share the bytes unless their member is compressed. `name` is for messages.
/// Throws: DataError.
[[nodiscard]] TorchValue torch_file_of(const FileBytes& file, const std::string& name);

/// Reads a zip file. A file that does not end like a zip file is rejected before memory for its bytes is allocated.
/// Throws: DataError; IoError.
[[nodiscard]] FileBytes read_zip_file(FileSystem& files, const std::filesystem::path& path);

/// Returns the reason why a file of this size must not be unpacked to `unpacked_bytes`; "" if it may be.
[[nodiscard]] std::string unpacked_problem(std::uint64_t file_bytes, std::uint64_t unpacked_bytes);

}  // namespace lockstep::checkpoint
