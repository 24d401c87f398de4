// SPDX-License-Identifier: Apache-2.0
// Builds a TorchScript module from a graph and the tensors that it uses.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/csrc/jit/api/module.h>

#include <memory>

namespace torch::nn {
class Module;
}

namespace lockstep::nn {

/// Moves the constant tensors of `graph` to attributes of a module with the method forward(): tensors of `model` keep
/// their names, others become buffers constant_0 and so on. Tensors without dimensions stay in the graph.
[[nodiscard]] torch::jit::Module script_module(const torch::nn::Module& model,
                                               const std::shared_ptr<torch::jit::Graph>& graph);

}  // namespace lockstep::nn
