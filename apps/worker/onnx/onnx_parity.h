// SPDX-License-Identifier: Apache-2.0
// Compares an ONNX file with the network from which it was exported.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/nn/torchscript.h"
#include "worker/onnx/onnx_session.h"

namespace lockstep::worker {

/// Returns the largest difference between two sets of rows (NetworkFunction::is_set): each row is compared with the
/// nearest one on the other side, and each result is divided by the largest value in `wanted` first.
///
/// A network that returns only its best rows may return others among those with the lowest score, since rounding
/// decides between them. So rows whose "scores" are the lowest, within 1e-4 of the largest, need no counterpart.
[[nodiscard]] double difference_of_rows(const nn::NetworkFunction& function, const std::vector<at::Tensor>& wanted,
                                        const std::vector<at::Tensor>& found);

/// Runs batches of 1, 3 and 5 through the ONNX file and the network. Returns a line for each result with the largest
/// difference, and a line with both times. Throws: DataError if they differ by more than 1e-4 of the largest value;
/// ResourceError if the runtime does not load the file.
[[nodiscard]] std::string compare_onnx(const OnnxRuntime& runtime, const std::filesystem::path& model,
                                       const nn::NetworkFunction& function);

}  // namespace lockstep::worker
