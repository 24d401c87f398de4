// SPDX-License-Identifier: Apache-2.0
// Conversion between checkpoints and the files of other programs: from a .pth or safetensors file to a checkpoint's
// states, and back.
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
  CheckpointStates states;            ///< "model"; "ema", if there is one; "values": the other plain values
  std::vector<std::string> left_out;  ///< entries that were left out, each with the reason
};

/// Sorts the content of a file: the state that `model` (or model_state_dict, state_dict, module, net) names, or the
/// whole of a flat file, becomes "model"; `ema` becomes "ema", with its number of updates; a "module." in front of all
/// names is removed. PyTorch stores an optimizer's state by position, not by name, so it is left out. `file` is for
/// messages.
/// Throws: DataError if there is no model.
[[nodiscard]] ImportedStates import_states(const TorchValue& content, const std::string& file);

/// Reads a .pth, .pt, .safetensors or .safetensors.index.json file for import_states(). Throws: DataError; IoError.
[[nodiscard]] TorchValue read_any_file(FileSystem& files, const std::filesystem::path& path);

/// The settings of export_weights().
struct ExportOptions {
  std::string state = "model";  ///< the state whose tensors are written; "all": every state with its plain values, only
                                ///< to .pth
  std::string prefix;           ///< put in front of every name ("module.")
};

/// Writes the weights of `source` (checkpoints and files, as in load_weights) to `to`, whose extension decides the
/// format: .safetensors, .pth or .pt. The file is replaced whole or not at all. Returns its number of tensors.
/// Throws: UsageError (another extension, or a tensor that the format lacks), DataError, IoError.
std::int64_t export_weights(const std::string& source, const std::filesystem::path& to,
                            const ExportOptions& options = {}, FileSystem& files = FileSystem::system());

/// Writes `value` as write_torch_file() does; the file is replaced whole or not at all. Returns its number of tensors.
/// Throws: UsageError, IoError.
std::int64_t export_torch_file(const std::filesystem::path& to, const TorchValue& value,
                               FileSystem& files = FileSystem::system());

}  // namespace lockstep

#pragma GCC visibility pop
