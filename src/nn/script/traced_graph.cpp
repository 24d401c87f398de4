// SPDX-License-Identifier: Apache-2.0
#include "nn/script/traced_graph.h"

#include <fmt/format.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include <exception>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::nn {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;
namespace prim = torch::jit::prim;
namespace aten = torch::jit::aten;

// Neither size is 1, because a dimension of 1 may be broadcast or squeezed away.
constexpr std::int64_t kSmallBatch = 2;
constexpr std::int64_t kLargeBatch = 3;

std::shared_ptr<Graph> recorded(const NetworkFunction& function, std::int64_t batch, bool out_of_place) {
  torch::jit::Stack arguments;
  for (at::Tensor& argument : function.example(batch)) arguments.emplace_back(std::move(argument));
  const auto run = [&function](const torch::jit::Stack& stack) -> torch::jit::Stack {
    std::vector<at::Tensor> tensors;
    for (const c10::IValue& value : stack) tensors.push_back(value.toTensor());
    std::vector<at::Tensor> results = function.run(tensors);
    if (results.size() == 1) return {results.front()};
    return {c10::ivalue::Tuple::create(std::vector<c10::IValue>(results.begin(), results.end()))};
  };
  const auto no_name = [](const at::Tensor& /*variable*/) { return std::string(); };
  try {
    auto state = torch::jit::tracer::trace(std::move(arguments), run, no_name, /*strict=*/true,
                                           /*force_outplace=*/out_of_place, /*self=*/nullptr, function.inputs)
                     .first;
    torch::jit::EliminateDeadCode(state->graph);
    return state->graph;
  } catch (const std::exception& error) {  // c10::Error in newer libtorch; for parameters of no model
    if (std::string_view(error.what()).find("requires grad as a constant") == std::string_view::npos) throw;
    throw UsageError("the function uses a parameter that does not belong to the model",
                     "register it in the model (register_module() or register_parameter()), or detach() it");
  }
}

[[noreturn]] void throw_depends(const std::string& what) {
  throw UsageError(
      fmt::format("the network computes something else for other arguments: {}", what),
      "a traced function must not depend on values, and on the batch size only through the sizes of tensors");
}

/// Numbers of a graph that depend on the batch size.
class BatchSizes {
 public:
  explicit BatchSizes(Graph& graph) : graph_(graph) {}

  /// Inserts a * size + b at the start of the graph.
  Value* number(std::int64_t small, std::int64_t large) {
    const std::int64_t factor = (large - small) / (kLargeBatch - kSmallBatch);
    const std::int64_t rest = small - factor * kSmallBatch;
    const auto found = known_.find({factor, rest});
    if (found != known_.end()) return found->second;
    const torch::jit::WithInsertPoint at_begin(behind_);
    Value* made = size();
    if (factor != 1) made = graph_.insert(aten::mul, {made, factor});
    if (rest != 0) made = graph_.insert(aten::add, {made, rest});
    return known_[{factor, rest}] = made;
  }

 private:
  Value* size() {
    if (size_ == nullptr) size_ = graph_.insert(aten::size, {graph_.inputs().at(0), std::int64_t{0}});
    return size_;
  }

  Graph& graph_;
  Node* behind_ = *graph_.nodes().begin();  ///< node before which sizes are inserted
  Value* size_ = nullptr;
  std::map<std::pair<std::int64_t, std::int64_t>, Value*> known_;
};

bool is_of(const Node& node, const c10::TypePtr& type) { return node.output()->type()->isSubtypeOf(*type); }

/// Compares constants of both graphs. Tensors are compared by size only: they are tables that both runs share.
bool same_constant(const c10::IValue& small, const c10::IValue& large) {
  if (small.isTensor() && large.isTensor()) return small.toTensor().sizes() == large.toTensor().sizes();
  return small == large;
}

/// Compares a node of the first graph with the same node of the second, and generalises a number that differs.
void generalise(Node& node, Node& twin, BatchSizes& sizes) {
  if (node.kind() != twin.kind() || node.inputs().size() != twin.inputs().size()) {
    throw_depends(fmt::format("{} instead of {}", node.kind().toQualString(), twin.kind().toQualString()));
  }
  if (node.kind() != prim::Constant) return;
  const auto small = torch::jit::toIValue(node.output());
  const auto large = torch::jit::toIValue(twin.output());
  if (!small || !large) return;
  if (small->isInt() && large->isInt()) {
    if (small->toInt() != large->toInt()) {
      node.output()->replaceAllUsesWith(sizes.number(small->toInt(), large->toInt()));
    }
  } else if (!same_constant(*small, *large)) {
    throw_depends("a constant that is not a whole number");
  }
}

/// Uses the device of the first argument instead of the traced one.
void follow_device(Graph& graph) {
  std::vector<Node*> devices;
  for (Node* node : graph.nodes()) {
    if (node->kind() == prim::Constant && is_of(*node, c10::DeviceObjType::get())) devices.push_back(node);
  }
  if (devices.empty()) return;
  const torch::jit::WithInsertPoint at_begin(*graph.nodes().begin());
  Node* made = graph.insertNode(graph.create(prim::device, {graph.inputs().at(0)}));
  made->output()->setType(c10::DeviceObjType::get());
  for (Node* node : devices) node->output()->replaceAllUsesWith(made->output());
}

}  // namespace

std::shared_ptr<Graph> traced_graph(const NetworkFunction& function, bool out_of_place) {
  const std::shared_ptr<Graph> graph = recorded(function, kSmallBatch, out_of_place);
  const std::shared_ptr<Graph> other = recorded(function, kLargeBatch, out_of_place);
  std::vector<std::pair<Node*, Node*>> twins;
  auto twin = other->nodes().begin();
  for (Node* node : graph->nodes()) {
    if (twin == other->nodes().end()) throw_depends("fewer operators");
    twins.emplace_back(node, *twin);
    ++twin;
  }
  if (twin != other->nodes().end()) throw_depends("more operators");
  BatchSizes sizes(*graph);
  for (const auto& [node, of_other] : twins) generalise(*node, *of_other, sizes);
  follow_device(*graph);
  torch::jit::EliminateDeadCode(graph);
  return graph;
}

}  // namespace lockstep::nn
