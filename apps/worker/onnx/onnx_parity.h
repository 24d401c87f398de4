// SPDX-License-Identifier: Apache-2.0
// Compares an ONNX file with the network from which it was exported.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/nn/torchscript.h"
#include "worker/onnx/onnx_session.h"

namespace lockstep::worker {

/// Runs batches of 1, 3 and 5 through the ONNX file and the network. Returns a line for each result with the largest
/// difference, and a line with both times. Throws: DataError if they differ by more than 1e-4 of the largest value;
/// ResourceError if the runtime does not load the file.
[[nodiscard]] std::string compare_onnx(const OnnxRuntime& runtime, const std::filesystem::path& model,
                                       const nn::NetworkFunction& function);

}  // namespace lockstep::worker
