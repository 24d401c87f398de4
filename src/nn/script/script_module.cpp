// SPDX-License-Identifier: Apache-2.0
#include "nn/script/script_module.h"

#include <fmt/format.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/nn/module.h>

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep::nn {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;
namespace prim = torch::jit::prim;

/// The identity of a tensor, by its memory: a network may compute with an object that shares a registered tensor's
/// memory.
using Identity = std::tuple<const void*, std::vector<std::int64_t>, std::vector<std::int64_t>, at::ScalarType>;

Identity identity_of(const at::Tensor& tensor) {
  return {tensor.data_ptr(), tensor.sizes().vec(), tensor.strides().vec(), tensor.scalar_type()};
}

struct Attribute {
  std::string name;  ///< full name, with the names of its modules: "backbone.stem.weight"
  bool is_buffer = true;
};

std::map<Identity, Attribute> attributes_of(const torch::nn::Module& model) {
  std::map<Identity, Attribute> all;
  for (const auto& item : model.named_parameters()) all.try_emplace(identity_of(item.value()), item.key(), false);
  for (const auto& item : model.named_buffers()) all.try_emplace(identity_of(item.value()), item.key(), true);
  return all;
}

/// A TorchScript module under construction.
class Part {
 public:
  explicit Part(std::shared_ptr<torch::jit::CompilationUnit> unit)
      : unit_(std::move(unit)),
        module_(c10::QualifiedName("__torch__.lockstep.Network"), unit_, /*shouldMangle=*/true) {
    module_.register_attribute("training", c10::BoolType::get(), false);
  }

  void add(const std::string& name, at::Tensor tensor, bool is_buffer) {
    const std::size_t dot = name.find('.');
    if (dot == std::string::npos) return module_.register_parameter(name, std::move(tensor), is_buffer);
    auto& child = children_[name.substr(0, dot)];
    if (!child) child = std::make_unique<Part>(unit_);
    child->add(name.substr(dot + 1), std::move(tensor), is_buffer);
  }

  /// Returns the module. Call it once all tensors have been added.
  torch::jit::Module finish() {
    for (const auto& [name, child] : children_) module_.register_module(name, child->finish());
    return module_;
  }

 private:
  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  torch::jit::Module module_;
  std::map<std::string, std::unique_ptr<Part>> children_;
};

/// Returns the constants of the graph that are tensors with dimensions.
std::vector<std::pair<Node*, at::Tensor>> tensors_of(Graph& graph) {
  std::vector<std::pair<Node*, at::Tensor>> found;
  for (Node* node : graph.nodes()) {
    if (node->kind() != prim::Constant) continue;
    const auto value = torch::jit::toIValue(node->output());
    if (value && value->isTensor() && value->toTensor().dim() > 0) found.emplace_back(node, value->toTensor());
  }
  return found;
}

/// Inserts nodes that read self.a.b.c, once for each name.
class Reader {
 public:
  Reader(Graph& graph, Value* self) : graph_(graph) { known_.emplace("", self); }

  Value* read(const std::string& name) {
    const auto found = known_.find(name);
    if (found != known_.end()) return found->second;
    const std::size_t dot = name.rfind('.');
    Value* owner = read(dot == std::string::npos ? "" : name.substr(0, dot));
    Value* made = graph_.insertGetAttr(owner, dot == std::string::npos ? name : name.substr(dot + 1));
    return known_[name] = made;
  }

 private:
  Graph& graph_;
  std::map<std::string, Value*> known_;
};

}  // namespace

torch::jit::Module script_module(const torch::nn::Module& model, const std::shared_ptr<Graph>& graph) {
  const auto constants = tensors_of(*graph);
  std::map<Identity, Attribute> known = attributes_of(model);
  Part root(std::make_shared<torch::jit::CompilationUnit>());
  std::map<std::string, bool> added;
  std::vector<std::pair<Node*, std::string>> names;
  std::int64_t own = 0;
  for (const auto& [node, tensor] : constants) {
    auto [found, is_new] = known.try_emplace(identity_of(tensor));
    if (is_new) found->second.name = fmt::format("constant_{}", own++);
    const Attribute& attribute = found->second;
    names.emplace_back(node, attribute.name);
    // Clones the tensor, since the archive would store the whole memory of a view.
    if (added.emplace(attribute.name, true).second) root.add(attribute.name, tensor.clone(), attribute.is_buffer);
  }
  torch::jit::Module module = root.finish();
  Value* self = graph->insertInput(0, "self");
  self->setType(module.type());
  {
    // The guard must end before the nodes are destroyed: the first node may be one of them.
    const torch::jit::WithInsertPoint at_begin(*graph->nodes().begin());
    Reader reader(*graph, self);
    for (const auto& [node, name] : names) node->output()->replaceAllUsesWith(reader.read(name));
  }
  for (const auto& [node, name] : names) node->destroy();
  const c10::QualifiedName forward(*module.type()->name(), "forward");
  module.type()->addMethod(module._ivalue()->compilation_unit()->create_function(forward, graph));
  return module;
}

}  // namespace lockstep::nn
