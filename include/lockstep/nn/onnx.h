// SPDX-License-Identifier: Apache-2.0
// Exports a trained network to ONNX without Python, for ONNX Runtime, TensorRT and browsers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/nn/torchscript.h"

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// The options of the file.
struct OnnxOptions {
  std::int64_t opset = 17;  ///< 16 or 17
  bool half = false;        ///< stores weights of 1 KiB or more in 16 bits; the network computes in float32
  std::map<std::string, std::string> texts = {};     ///< metadata_props of the file, by key
  std::string tensors_file = "model.onnx.data";      ///< name of the second file, if weights exceed `most_bytes`
  std::int64_t most_bytes = std::int64_t{1} << 31U;  ///< maximum bytes of weights in the first file: protobuf's limit
};

/// The bytes of a model, and of a second file if its weights do not fit.
struct OnnxFile {
  std::string model;    ///< the file itself
  std::string tensors;  ///< empty: there is no second file
};

/// Traces the function and returns it as ONNX. The first dimension of arguments and results can have any size ("N").
///
/// Parameters and buffers keep their names. The metadata holds `texts` and network.json, as in to_torchscript(). The
/// traced graph is compared with the function, on batches of 1 and 5; the caller must test that a runtime computes the
/// same results from the file. `half` rounds the weights of `model` itself to 16 bits; tables that are neither
/// parameters nor buffers stay in 32 bits unless 16 bits hold them exactly. `model` must be in evaluation mode.
///
/// Throws: the UsageErrors of to_torchscript(); UsageError that names an operator without a row in the table of
///         operators, or with an argument that its row cannot write, and the last parameter before it; UsageError that
///         names a weight with a finite value beyond 65504 if `half` is set, before any weight is rounded.
[[nodiscard]] OnnxFile to_onnx(torch::nn::Module& model, const NetworkFunction& function,
                               const OnnxOptions& options = {});

/// Returns the operators of libtorch that to_onnx() can write, in alphabetical order: "_convolution", "abs" and so on.
[[nodiscard]] std::vector<std::string> onnx_operators();

}  // namespace lockstep::nn

#pragma GCC visibility pop
