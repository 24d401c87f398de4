// SPDX-License-Identifier: Apache-2.0
// Reads and writes a StateDict as a safetensors file, which every safetensors tool can read. The format contains no
// pickle, so nothing in a file is executed. docs/formats/safetensors.md has the byte grammar.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/manifest.h"
#include "lockstep/tensor/state_dict.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// A safetensors file's `__metadata__`: free text by name.
using SafetensorsMetadata = std::map<std::string, std::string>;

/// Writes `state` to `path` and syncs it to disk. Tensors with any strides are written row-major. Plain values become
/// entries `scalar.<name>` of `__metadata__`, as canonical JSON.
///
/// Blocks: yes. Cost: a copy of one tensor at a time, only for tensors that are not contiguous or not on the CPU.
/// Throws: UsageError naming the entry if a tensor is undefined, sparse, or of a type that the format does not support;
///         IoError.
FileDigest write_safetensors(FileSystem& files, const std::filesystem::path& path, const StateDict& state,
                             const SafetensorsMetadata& metadata = {});

/// Reads a safetensors file written by any program. Tensors are contiguous, on the CPU, and share one buffer that holds
/// the file. `metadata`, if given, receives the entries that are not `scalar.` entries.
/// Throws: DataError naming the file and the problem; IoError.
[[nodiscard]] StateDict read_safetensors(FileSystem& files, const std::filesystem::path& path,
                                         SafetensorsMetadata* metadata = nullptr);

}  // namespace lockstep

#pragma GCC visibility pop
