// SPDX-License-Identifier: Apache-2.0
// The record that a forward leaves for the backward through its outputs.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

namespace torch::autograd {
struct Node;
}

namespace lockstep::parallel {

/// A forward whose backward may still run. Hooks on the outputs own it, so it lives as long as the graph.
struct ForwardPass {
  bool sync = true;                  ///< the forward ran outside no_sync()
  std::vector<bool> reachable = {};  ///< true for each parameter that the outputs depend on; empty if not searched
  bool reached = false;              ///< a backward has passed through an output
};

/// Maps each accumulator node to its parameter.
using ParameterOf = std::unordered_map<const torch::autograd::Node*, std::size_t>;

/// Returns the parameters whose accumulators are in the graph of `outputs`. Segments that are recomputed later are not
/// in the graph. Cost: visits each node of the graph once.
[[nodiscard]] std::vector<bool> reachable_parameters(const std::vector<at::Tensor>& outputs,
                                                     const ParameterOf& parameter_of);

}  // namespace lockstep::parallel
