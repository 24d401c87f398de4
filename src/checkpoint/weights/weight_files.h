// SPDX-License-Identifier: Apache-2.0
// Reads weight files of any kind into one tree of values. The extension determines the kind.
#pragma once

#include <filesystem>

#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/torch_file.h"

namespace lockstep::checkpoint {

/// Returns true if `path` is a file and not a checkpoint folder.
[[nodiscard]] bool is_weight_file(FileSystem& files, const std::filesystem::path& path);

/// Reads a .safetensors file, the parts that a .safetensors.index.json names, or a torch.save file.
/// Throws: DataError; IoError.
[[nodiscard]] TorchValue read_weight_file(FileSystem& files, const std::filesystem::path& path);

/// The number of averaged models that PyTorch's AveragedModel.state_dict() has beside the entries module.*.
inline constexpr const char* kAveragedCount = "n_averaged";

/// Returns the tensors of a dict by name, without "module." if all names begin with it. An AveragedModel's count does
/// not matter to that and is then left out.
[[nodiscard]] StateDict tensors_of(const TorchDict& dict);

}  // namespace lockstep::checkpoint
