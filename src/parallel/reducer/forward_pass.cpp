// SPDX-License-Identifier: Apache-2.0
#include "parallel/reducer/forward_pass.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_set>

namespace lockstep::parallel {

std::vector<bool> reachable_parameters(const std::vector<at::Tensor>& outputs, const ParameterOf& parameter_of) {
  using torch::autograd::Node;
  std::vector<bool> reachable(parameter_of.size());
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> open;
  const auto visit = [&](const Node* node) {
    if (node == nullptr || !seen.insert(node).second) return;
    const auto found = parameter_of.find(node);
    if (found != parameter_of.end()) reachable[found->second] = true;
    open.push_back(node);
  };
  for (const at::Tensor& output : outputs) {
    if (output.requires_grad()) visit(torch::autograd::impl::gradient_edge(output).function.get());
  }
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    for (const auto& edge : node->next_edges()) visit(edge.function.get());
  }
  return reachable;
}

}  // namespace lockstep::parallel
