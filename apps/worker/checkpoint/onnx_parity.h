// SPDX-License-Identifier: Apache-2.0
// A file of ONNX, computed by a runtime and compared with the network that it was made from.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/nn/torchscript.h"

namespace lockstep::worker {

/// A program that computes ONNX: the command before the folder.
struct OnnxRuntime {
  std::vector<std::string> command;
};

/// Returns Python or Node, whichever PATH finds first that has ONNX Runtime; `chosen`: that one of them, by name or
/// path. Throws: ResourceError where `chosen` has none.
[[nodiscard]] std::optional<OnnxRuntime> find_onnx_runtime(const std::string& chosen);

/// Computes batches of 1, 3 and 5 with both, and returns a line for each result: the largest difference, and the time
/// beside the network's own. Throws: DataError where they differ by more than 1e-4 of the largest value; ResourceError
/// where the runtime does not load the file.
[[nodiscard]] std::string compare_onnx(const OnnxRuntime& runtime, const std::filesystem::path& model,
                                       const nn::NetworkFunction& function);

}  // namespace lockstep::worker
