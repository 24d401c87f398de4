// SPDX-License-Identifier: Apache-2.0
// Builds a StateDict from bytes that have already been read, for callers that check the hash of the bytes first.
#pragma once

#include <string>

#include "checkpoint/formats/read_file.h"
#include "checkpoint/formats/safetensors_header.h"
#include "lockstep/base/result.h"
#include "lockstep/checkpoint/safetensors.h"

namespace lockstep::checkpoint {

/// Returns the state; its tensors share `bytes`. `file` is for messages.
/// Throws: DataError.
[[nodiscard]] StateDict state_from_bytes(const FileBytes& bytes, const std::string& file,
                                         SafetensorsMetadata* metadata = nullptr);

/// Reads only the header, so that a file without one is rejected before memory for its bytes is allocated. `path` is
/// for messages. Throws: DataError; IoError.
[[nodiscard]] SafetensorsHeader read_header(ReadableFile& file, const std::string& path);

/// Returns the same as state_from_bytes(), but the tensors have no data. Throws: anything state_from_bytes() throws.
[[nodiscard]] StateDict outline_of(ReadableFile& file, const std::string& path,
                                   SafetensorsMetadata* metadata = nullptr);

/// Returns a plain value's canonical JSON. Fails for a tensor, and for a string that is not UTF-8.
[[nodiscard]] Result<std::string> scalar_json(const StateValue& value);

}  // namespace lockstep::checkpoint
