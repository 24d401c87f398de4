// SPDX-License-Identifier: Apache-2.0
// A trained network as ONNX, written without Python: for ONNX Runtime, TensorRT, browsers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/nn/torchscript.h"

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// How a network is written.
struct OnnxOptions {
  std::int64_t opset = 17;                           ///< 16 or 17
  bool half = false;                                 ///< weights take 16 bits in the file; it computes in float32
  std::map<std::string, std::string> texts = {};     ///< metadata_props of the file, by key
  std::string tensors_file = "model.onnx.data";      ///< name of the second file, for weights beyond 2 GiB
  std::int64_t most_bytes = std::int64_t{1} << 31U;  ///< of weights that lie in the first file: protobuf's limit
};

/// The bytes of a model, and of the file beside it where its weights do not fit.
struct OnnxFile {
  std::string model;    ///< the file itself
  std::string tensors;  ///< empty: there is no second file
};

/// Traces the function and returns it as ONNX, with a first dimension of any size ("N") in arguments and results.
///
/// Parameters and buffers keep their names. Metadata has `texts` and network.json, as to_torchscript() writes it. The
/// traced graph is compared with the function, for batches of 1 and 5; whether a runtime computes the same from
/// the file is for the caller to try. With `half` the weights of `model` are rounded to 16 bits, for good. `model` has
/// to be in evaluation mode. Throws: UsageError as to_torchscript(), and for an operator that has no row in the table,
/// naming it and the last parameter before it.
[[nodiscard]] OnnxFile to_onnx(torch::nn::Module& model, const NetworkFunction& function,
                               const OnnxOptions& options = {});

/// Returns the operators of libtorch that to_onnx() can write, in order: "_convolution", "abs" and so on.
[[nodiscard]] std::vector<std::string> onnx_operators();

}  // namespace lockstep::nn

#pragma GCC visibility pop
