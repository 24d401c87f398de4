// SPDX-License-Identifier: Apache-2.0
// Runs an ONNX file with ONNX Runtime in a separate Python or Node process.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/temporary_folder.h"
#include "lockstep/launch/child.h"

namespace lockstep::worker {

/// A program that runs ONNX files: its command line without the ONNX file.
struct OnnxRuntime {
  std::vector<std::string> command;
};

/// Returns the first Python or Node in PATH that has ONNX Runtime. `chosen`: the program to use, by name or path.
/// Throws: ResourceError if `chosen` has no ONNX Runtime.
[[nodiscard]] std::optional<OnnxRuntime> find_onnx_runtime(const std::string& chosen);

class OnnxSession {
 public:
  /// Throws: ResourceError if the runtime does not load the file.
  OnnxSession(const OnnxRuntime& runtime, const std::filesystem::path& model);

  [[nodiscard]] const std::string& runtime() const { return runtime_; }  ///< "ONNX Runtime 1.30.0 (Node)"
  [[nodiscard]] const std::vector<std::string>& inputs() const { return inputs_; }
  [[nodiscard]] const std::vector<std::string>& outputs() const { return outputs_; }
  [[nodiscard]] double last_ms() const { return last_ms_; }  ///< time of the last run()

  /// Returns the results, on the device of the arguments.
  /// Throws: ResourceError with the runtime's message if it cannot compute them, for example for arguments of a
  /// different size.
  [[nodiscard]] std::vector<at::Tensor> run(const std::vector<at::Tensor>& arguments);

 private:
  nlohmann::json next();

  apps::TemporaryFolder folder_;
  AnsweringChild child_;
  std::string runtime_;
  std::vector<std::string> inputs_;
  std::vector<std::string> outputs_;
  double last_ms_ = 0;
};

}  // namespace lockstep::worker
