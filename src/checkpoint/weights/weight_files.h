// SPDX-License-Identifier: Apache-2.0
// Files of weights of any kind as one tree of values: the kind is found out from the name and the first bytes.
#pragma once

#include <filesystem>

#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/torch_file.h"

namespace lockstep::checkpoint {

/// Returns whether `path` is a file of any kind; a checkpoint is a folder.
[[nodiscard]] bool is_weight_file(FileSystem& files, const std::filesystem::path& path);

/// Reads a .safetensors file, the parts that a .safetensors.index.json names, or a file of torch.save.
/// Throws: DataError; IoError.
[[nodiscard]] TorchValue read_weight_file(FileSystem& files, const std::filesystem::path& path);

/// Returns the tensors of a dict by name, without "module." where all names begin with it.
[[nodiscard]] StateDict tensors_of(const TorchDict& dict);

}  // namespace lockstep::checkpoint
