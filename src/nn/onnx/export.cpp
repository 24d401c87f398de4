// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/onnx.h"

#include <fmt/format.h>
#include <torch/nn/module.h>

#include <utility>

#include "lockstep/base/error.h"
#include "nn/onnx/rows.h"
#include "nn/script/script_module.h"
#include "nn/script/traced_graph.h"
#include "nn/script/tracing.h"

namespace lockstep::nn {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;
namespace prim = torch::jit::prim;

std::map<const void*, std::string> names_of(const torch::nn::Module& model) {
  std::map<const void*, std::string> names;
  for (const auto& item : model.named_parameters()) names.try_emplace(item.value().data_ptr(), item.key());
  for (const auto& item : model.named_buffers()) names.try_emplace(item.value().data_ptr(), item.key());
  return names;
}

/// Throws: UsageError if a finite value is too large for a 16-bit float.
void require_fits_half(const std::string& name, const at::Tensor& tensor) {
  const at::Tensor is_lost = tensor.to(at::kHalf).isinf().logical_and(tensor.isfinite());
  if (!is_lost.any().item<bool>()) return;
  throw UsageError(fmt::format("{} has the value {}, but a 16-bit float holds at most 65504", name,
                               tensor.masked_select(is_lost)[0].item<float>()),
                   "store the weights in 32 bits: leave out --fp16, or OnnxOptions::half");
}

/// Rounds the parameters and buffers that the file stores in 16 bits. Changes nothing if it throws.
/// Throws: UsageError if a finite value is too large for a 16-bit float.
void round_to_half(torch::nn::Module& model) {
  std::vector<at::Tensor> all;
  const auto gather = [&all](const auto& tensors) {
    for (const auto& item : tensors) {
      if (!is_worth_halving(item.value())) continue;
      require_fits_half(item.key(), item.value());
      all.push_back(item.value());
    }
  };
  gather(model.named_parameters());
  gather(model.named_buffers());
  for (const at::Tensor& tensor : all) tensor.copy_(tensor.to(at::kHalf));
}

/// True for nodes without a counterpart in ONNX: the nodes that use their results interpret them.
bool is_silent(const Node& node) {
  return node.kind() == prim::Constant || node.kind() == prim::ListConstruct || node.kind() == prim::device ||
         node.kind() == prim::TupleConstruct;
}

/// True for conversions between numbers and tensors: in ONNX both are a list of one element.
bool is_number(const Node& node) {
  const std::string name = node.kind().toUnqualString();
  return name == "NumToTensor" || name == "Int" || name == "ScalarImplicit" || name == "IntImplicit";
}

void convert(Node& node, OnnxValues& values) {
  if (is_silent(node)) return;
  if (is_number(node)) return values.set(node.output(), values.tensor(node.input(0)));
  if (node.kind() == prim::ListUnpack) {
    const std::vector<std::string> names = values.list(node.input());
    for (std::size_t i = 0; i < node.outputs().size(); ++i) values.set(node.output(i), names.at(i));
    return;
  }
  OnnxCall call(node, values);
  onnx::run_row(call);
}

std::vector<const Value*> results_of(const Graph& graph) {
  const Value* result = graph.outputs().at(0);
  if (result->node()->kind() != prim::TupleConstruct) return {result};
  const auto inputs = result->node()->inputs();
  return {inputs.begin(), inputs.end()};
}

std::vector<OnnxPort> ports(const std::vector<std::string>& names, const std::vector<at::Tensor>& tensors) {
  std::vector<OnnxPort> all;
  for (std::size_t i = 0; i < names.size(); ++i) all.push_back({names[i], tensors.at(i)});
  return all;
}

}  // namespace

OnnxFile to_onnx(torch::nn::Module& model, const NetworkFunction& function, const OnnxOptions& options) {
  if (options.opset != 16 && options.opset != 17) {
    throw UsageError(fmt::format("opset {} is not supported", options.opset), "use 16 or 17: later runtimes read both");
  }
  const Tracing tracing(model);
  if (options.half) round_to_half(model);
  const std::vector<at::Tensor> arguments = function.example(1);
  const std::vector<at::Tensor> results = function.run(arguments);
  const std::shared_ptr<Graph> graph = traced_graph(function, /*out_of_place=*/true);
  OnnxModel onnx;
  OnnxValues values(onnx, names_of(model));
  for (std::size_t i = 0; i < function.inputs.size(); ++i) values.set(graph->inputs().at(i), function.inputs[i]);
  for (Node* node : graph->nodes()) convert(*node, values);
  const std::vector<const Value*> found = results_of(*graph);
  for (std::size_t i = 0; i < found.size(); ++i)
    onnx.add_named("Identity", values.tensor(found[i]), function.outputs.at(i));

  // last, so that an operator that draws random numbers gets an error with its name before the results are compared
  torch::jit::Module module = script_module(model, graph->copy());
  require_same_results(module, function);

  OnnxModel::Head head{.opset = options.opset,
                       .half = options.half,
                       .inputs = ports(function.inputs, arguments),
                       .outputs = ports(function.outputs, results),
                       .texts = options.texts,
                       .most_bytes = options.most_bytes,
                       .beside = options.tensors_file};
  head.texts["network.json"] = describe(function, arguments, results);
  OnnxBytes bytes = onnx.bytes(head);
  return {std::move(bytes.model), std::move(bytes.tensors)};
}

std::vector<std::string> onnx_operators() { return onnx::operators(); }

}  // namespace lockstep::nn
