// SPDX-License-Identifier: Apache-2.0
// An operator of a graph, as passed to a row of the operator table. Arguments are names of ONNX values, or constants.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "nn/onnx/model.h"

namespace lockstep::nn {

/// The names of the graph's values in the model.
class OnnxValues {
 public:
  /// `names`: the names of the network's own tensors; other tensors are named by number.
  OnnxValues(OnnxModel& model, std::map<const void*, std::string> names) : model_(model), names_(std::move(names)) {}

  void set(const torch::jit::Value* value, std::string name) { tensors_[value] = std::move(name); }
  void set_list(const torch::jit::Value* value, std::vector<std::string> names) { lists_[value] = std::move(names); }

  /// Returns the name of a tensor. An integer that depends on the batch size is a list of one element.
  [[nodiscard]] const std::string& tensor(const torch::jit::Value* value);
  [[nodiscard]] std::vector<std::string> list(const torch::jit::Value* value);
  [[nodiscard]] OnnxModel& model() { return model_; }
  /// Returns the name of the network's tensor that was stored last, to show the location in the graph.
  [[nodiscard]] const std::string& last_name() const { return last_name_; }

 private:
  const std::string& store(const torch::jit::Value* value, const at::Tensor& tensor);

  OnnxModel& model_;
  std::map<const void*, std::string> names_;
  std::unordered_map<const torch::jit::Value*, std::string> tensors_;
  std::unordered_map<const torch::jit::Value*, std::vector<std::string>> lists_;
  std::map<std::pair<const void*, std::vector<std::int64_t>>, std::string> stored_;
  std::string last_name_;
};

/// An operator's arguments as tensors.
class OnnxTensors {
 public:
  OnnxTensors(const torch::jit::Node& node, OnnxValues& values) : node_(node), values_(values) {}

  [[nodiscard]] std::string name() const { return node_.kind().toUnqualString(); }
  [[nodiscard]] std::size_t count() const { return node_.inputs().size(); }
  [[nodiscard]] bool none(std::size_t i) const;
  [[nodiscard]] std::string in(std::size_t i) const { return values_.tensor(node_.input(i)); }
  [[nodiscard]] std::vector<std::string> list(std::size_t i) const { return values_.list(node_.input(i)); }
  /// Returns the number of values in a list; 0 for None.
  [[nodiscard]] std::size_t list_size(std::size_t i) const;
  /// Returns argument `i`, a tensor or a number, as a tensor of `type`.
  [[nodiscard]] std::string as(std::size_t i, at::ScalarType type) const;
  /// Returns the types of a list's tensors; Undefined for an omitted tensor.
  [[nodiscard]] std::vector<at::ScalarType> kinds(std::size_t i) const;
  /// Returns the sizes as traced, with a small batch.
  [[nodiscard]] std::vector<std::int64_t> sizes(std::size_t i) const;
  [[nodiscard]] std::int64_t rank(std::size_t i) const { return static_cast<std::int64_t>(sizes(i).size()); }
  [[nodiscard]] at::ScalarType type(std::size_t i) const;
  [[nodiscard]] at::ScalarType common_type(std::size_t i, std::size_t j) const;

  [[nodiscard]] std::string constant(double value, at::ScalarType type) const;
  [[nodiscard]] std::string cast(const std::string& name, at::ScalarType type) const;
  /// Throws: UsageError with the operator, the reason `why` it cannot be exported, and its place in the network.
  [[noreturn]] void refuse(const std::string& why) const;

 protected:
  const torch::jit::Node& node_;
  OnnxValues& values_;
};

/// An operator's arguments as constants. Throws: UsageError if they depend on the batch size.
class OnnxConstants : public OnnxTensors {
 public:
  using OnnxTensors::OnnxTensors;

  [[nodiscard]] std::int64_t integer(std::size_t i) const;
  [[nodiscard]] std::optional<std::int64_t> maybe_integer(std::size_t i) const;
  [[nodiscard]] std::vector<std::int64_t> integers(std::size_t i) const;
  [[nodiscard]] double number(std::size_t i) const;
  [[nodiscard]] bool flag(std::size_t i) const;
  [[nodiscard]] std::string text(std::size_t i) const;
  /// Returns the operator that computes argument `i`.
  [[nodiscard]] std::string source(std::size_t i) const { return node_.input(i)->node()->kind().toUnqualString(); }
  /// Returns a dimension of `argument`, counted from 0.
  [[nodiscard]] std::int64_t dim(std::size_t i, std::size_t argument = 0) const;
  [[nodiscard]] std::vector<std::int64_t> dims(std::size_t i, std::size_t argument = 0) const;
  /// Returns an integer or a list of integers, which may depend on the batch size, as a one-dimensional tensor.
  [[nodiscard]] std::string shape(std::size_t i) const { return shape(i, -1, -1); }
  /// Does the same, but replaces the number `from` in the list with `to`, as for the -1 of an expansion.
  [[nodiscard]] std::string shape(std::size_t i, std::int64_t from, std::int64_t to) const;
};

/// An operator, its results, and the nodes that compute them.
class OnnxCall : public OnnxConstants {
 public:
  using OnnxConstants::OnnxConstants;

  [[nodiscard]] at::ScalarType result_type(std::size_t i = 0) const;
  [[nodiscard]] std::vector<std::int64_t> result_sizes(std::size_t i = 0) const;
  /// Returns a float tensor with the sizes and memory order that argument `i` was traced with.
  [[nodiscard]] at::Tensor empty_like(std::size_t i) const;
  [[nodiscard]] std::size_t results() const { return node_.outputs().size(); }
  [[nodiscard]] bool used(std::size_t i) const { return node_.output(i)->hasUses(); }
  void give(const std::string& name, std::size_t i = 0) { values_.set(node_.output(i), name); }
  void give_list(std::vector<std::string> names) { values_.set_list(node_.output(), std::move(names)); }
  /// Returns the sizes along `dim` of the tensors into which the result, a list, is unpacked.
  [[nodiscard]] std::vector<std::int64_t> unpacked_sizes(std::int64_t dim) const;

  std::string add(const std::string& op, const std::vector<std::string>& inputs,
                  const OnnxAttributes& attributes = {}) {
    return values_.model().add(op, inputs, attributes).front();
  }
  std::vector<std::string> add_all(const std::string& op, const std::vector<std::string>& inputs,
                                   const OnnxAttributes& attributes, std::size_t results) {
    return values_.model().add(op, inputs, attributes, static_cast<int>(results));
  }
  std::string integers_of(const std::vector<std::int64_t>& numbers) { return values_.model().store_integers(numbers); }
  std::string stored(const at::Tensor& tensor) { return values_.model().store(tensor); }
  /// Stores `count` equal elements of the result's type.
  std::string filled(std::int64_t count, double value) const;
};

/// Returns the value of a constant, or of a list of constants; none for others.
[[nodiscard]] std::optional<c10::IValue> onnx_constant(const torch::jit::Value* value);

}  // namespace lockstep::nn
