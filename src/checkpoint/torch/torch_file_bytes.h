// SPDX-License-Identifier: Apache-2.0
// A torch file that is in memory: what reads it and what verifies it are the same.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/formats/read_file.h"
#include "lockstep/checkpoint/torch_file.h"

namespace lockstep::checkpoint {

/// Its values; tensors share the bytes where nothing is packed. `name` stands in messages. Throws: DataError.
[[nodiscard]] TorchValue torch_file_of(const FileBytes& file, const std::string& name);

/// Why a file of so many bytes is not unpacked to so many; "" where it may be.
[[nodiscard]] std::string unpacked_problem(std::uint64_t file_bytes, std::uint64_t unpacked_bytes);

}  // namespace lockstep::checkpoint
