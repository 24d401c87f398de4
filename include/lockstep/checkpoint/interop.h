// SPDX-License-Identifier: Apache-2.0
// Converts the .pth and safetensors files of other programs to the states of checkpoints, and back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/torch_file.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The checkpoint states that come from a file.
struct ImportedStates {
  CheckpointStates states;            ///< "model"; "ema", if the file has one; "values": the other plain values
  std::vector<std::string> left_out;  ///< entries that were skipped, each with the reason
};

/// Sorts the content of a file into states. The value of `model` (or model_state_dict, state_dict, module, net), or the
/// whole of a flat file, becomes "model". `ema` becomes "ema", with its number of updates. A "module." prefix on all
/// names is removed. PyTorch stores an optimizer's state by position, not by name, so it is omitted. `file` is used in
/// messages.
/// Throws: DataError if there is no model.
[[nodiscard]] ImportedStates import_states(const TorchValue& content, const std::string& file);

/// Reads a .pth, .pt, .safetensors or .safetensors.index.json file for import_states(). Throws: DataError; IoError.
[[nodiscard]] TorchValue read_any_file(FileSystem& files, const std::filesystem::path& path);

/// The settings of export_weights().
struct ExportOptions {
  std::string state = "model";  ///< the state whose tensors are written; "all": all states with plain values, to .pth
  std::string prefix;           ///< prefix for every name ("module.")
};

/// Writes the weights of `source` (a checkpoint or file, as in load_weights()) to `to`, whose extension determines the
/// format: .safetensors, .pth or .pt. The file is replaced atomically. Returns the number of tensors.
/// Throws: UsageError (any other extension, or a tensor that the format cannot store), DataError, IoError.
std::int64_t export_weights(const std::string& source, const std::filesystem::path& to,
                            const ExportOptions& options = {}, FileSystem& files = FileSystem::system());

/// Like write_torch_file(), but replaces the file atomically. Returns the number of tensors.
/// Throws: UsageError, IoError.
std::int64_t export_torch_file(const std::filesystem::path& to, const TorchValue& value,
                               FileSystem& files = FileSystem::system());

}  // namespace lockstep

#pragma GCC visibility pop
