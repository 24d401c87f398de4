// SPDX-License-Identifier: Apache-2.0
// Nodes of autograd's graph, whose owning pointer is std::shared_ptr in older and c10::intrusive_ptr in newer versions
// of libtorch.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace lockstep::parallel {

using NodePointer = decltype(torch::autograd::Edge::function);

/// Creates a node that may be reached through a long chain of nodes. With either pointer type, the chain is destroyed
/// without recursion.
template <class Node, class... Arguments>
auto make_node(Arguments&&... arguments) {
  if constexpr (std::is_same_v<NodePointer, std::shared_ptr<torch::autograd::Node>>) {
    const auto destroy = [](auto* node) { deleteNode(node); };
    return std::shared_ptr<Node>(new Node(std::forward<Arguments>(arguments)...), destroy);
  } else {
    return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
  }
}

}  // namespace lockstep::parallel
