// SPDX-License-Identifier: Apache-2.0
// Builds an ONNX file: nodes, stored tensors, arguments and results
// (https://github.com/onnx/onnx/blob/main/docs/IR.md).
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::nn {

using OnnxAttribute =
    std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, at::Tensor, std::vector<std::string>>;
using OnnxAttributes = std::vector<std::pair<std::string, OnnxAttribute>>;

/// An argument or a result. Its first dimension is the batch, of any size.
struct OnnxPort {
  std::string name;
  at::Tensor example;  ///< a tensor of its dtype, with the sizes of its other dimensions
};

/// The file, and a second file for the tensors if they do not fit in the first.
struct OnnxBytes {
  std::string model;
  std::string tensors;  ///< empty: the model holds everything
};

class OnnxModel {
 public:
  /// Adds a node. An empty name omits an input. Returns the names of its results.
  std::vector<std::string> add(const std::string& op, const std::vector<std::string>& inputs,
                               const OnnxAttributes& attributes = {}, int results = 1);
  /// Adds a node whose result has this name.
  void add_named(const std::string& op, const std::string& input, const std::string& result);
  /// Stores a tensor, under a new name if `name` is empty. Returns the name.
  std::string store(const at::Tensor& tensor, const std::string& name = {});
  /// Stores integers as a list of 64-bit integers; equal lists are stored once.
  std::string store_integers(const std::vector<std::int64_t>& numbers);

  struct Head {
    std::int64_t opset = 17;
    bool half = false;  ///< stores float32 tensors as 16-bit floats if is_worth_halving(), and if no value changes
    std::vector<OnnxPort> inputs;
    std::vector<OnnxPort> outputs;
    std::map<std::string, std::string> texts;  ///< metadata
    std::int64_t most_bytes = std::int64_t{1}
                              << 31U;  ///< maximum size of a file with tensors, in bytes: protobuf's limit
    std::string beside;                ///< name of the second file
  };
  /// Returns the bytes of the file.
  [[nodiscard]] OnnxBytes bytes(const Head& head) const;

 private:
  struct Node {
    std::string op;
    std::vector<std::string> inputs;
    std::vector<std::string> results;
    OnnxAttributes attributes;
  };

  std::vector<Node> nodes_;
  std::vector<std::pair<std::string, at::Tensor>> stored_;
  std::map<std::vector<std::int64_t>, std::string> integers_;
  int names_ = 0;

  friend class OnnxWriter;
};

/// True for float32 tensors of 1 KiB or more: smaller ones stay in 32 bits even with Head::half.
[[nodiscard]] bool is_worth_halving(const at::Tensor& tensor);

/// Returns ONNX's code for an element type. Throws: UsageError for a type that ONNX lacks.
[[nodiscard]] std::int32_t onnx_type(at::ScalarType type);

}  // namespace lockstep::nn
