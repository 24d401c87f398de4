// SPDX-License-Identifier: Apache-2.0
// Reads and writes torch.save files (.pth and .pt) with tensors and plain values. No code in a file is ever executed; a
// file that would require it is rejected. docs/formats/torch_file.md has the grammar.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/file_system.h"
#include "lockstep/tensor/state_dict.h"

#pragma GCC visibility push(default)

namespace lockstep {

struct TorchValue;

/// A key of a Python dict.
using TorchKey = std::variant<std::int64_t, std::string>;
/// A list or a tuple.
using TorchList = std::vector<TorchValue>;
/// A dict or an OrderedDict, in its original order; keys are unique.
using TorchDict = std::vector<std::pair<TorchKey, TorchValue>>;

/// One value of a torch file, with the values nested in it. None is std::monostate, a torch.Size is a list, and a dtype
/// or device is its name ("torch.float32", "cuda:0").
struct TorchValue {
  /// The types of a value: None, a bool, a number, a string, a tensor, a list or a dict.
  using Any = std::variant<std::monostate, bool, std::int64_t, double, std::string, at::Tensor, TorchList, TorchDict>;
  Any value;  ///< the value

  /// Returns the value under a string key of a dict; null if there is none, or if this is not a dict.
  [[nodiscard]] const TorchValue* find(std::string_view key) const;
  /// Returns the dict; null if this is not a dict.
  [[nodiscard]] const TorchDict* dict() const { return std::get_if<TorchDict>(&value); }
};

/// Reads a torch.save file (PyTorch 1.6 or later). Tensors are on the CPU, keep their strides, and share storages as in
/// the file; all share one buffer that holds the file. Cost: reads every byte once and checks its CRC-32.
/// Throws: DataError naming the file, the problem and, if a pickle would have executed code, the opcode, the name and
/// the byte; IoError.
[[nodiscard]] TorchValue read_torch_file(FileSystem& files, const std::filesystem::path& path);

/// Writes a file for torch.load(weights_only=True), and syncs it to disk. Tensors are written row-major and without the
/// rest of their storage; a tensor that occurs twice is written once.
/// Blocks: yes. Cost: a copy of one tensor at a time, only for tensors that are not contiguous or not on the CPU.
/// Throws: UsageError naming the entry that cannot be saved; IoError.
void write_torch_file(FileSystem& files, const std::filesystem::path& path, const TorchValue& value);

/// Returns a dict of the state's entries.
[[nodiscard]] TorchValue to_torch_value(const StateDict& state);

}  // namespace lockstep

#pragma GCC visibility pop
