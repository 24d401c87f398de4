// SPDX-License-Identifier: Apache-2.0
// Stores a StatePart as a safetensors file: slices become one-dimensional tensors, `__metadata__` holds their
// positions.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/base/file_system.h"
#include "lockstep/base/result.h"
#include "lockstep/checkpoint/manifest.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/tensor/state_part.h"

namespace lockstep::checkpoint {

/// Writes a part and syncs it to the disk. Throws: anything write_safetensors() throws.
FileDigest write_part(FileSystem& files, const std::filesystem::path& path, const StatePart& part);

/// Returns the part whose file holds `state` and `metadata`. Throws: DataError naming `file` for invalid metadata.
[[nodiscard]] StatePart part_from(StateDict state, const SafetensorsMetadata& metadata, const std::string& file);

/// Returns `{"begin": 12, "shape": [64, 3]}`, and adds "strides" if they are not row-major.
[[nodiscard]] std::string slice_to_json(const TensorSlice& slice);
[[nodiscard]] Result<TensorSlice> slice_from_json(const std::string& text);

}  // namespace lockstep::checkpoint
