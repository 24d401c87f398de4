// SPDX-License-Identifier: Apache-2.0
// Finds the parameters of a module with sparse gradients. It needs torch/nn headers, so it is not in a header.
#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <torch/nn/modules/embedding.h>

#include "lockstep/parallel/distributed_data_parallel.h"

namespace lockstep::parallel {

std::vector<at::Tensor> sparse_weights(const torch::nn::Module& module) {
  std::vector<at::Tensor> weights;
  for (const auto& one : module.modules()) {
    if (const auto* embedding = one->as<torch::nn::EmbeddingImpl>()) {
      if (embedding->options.sparse()) weights.push_back(embedding->weight);
    } else if (const auto* bag = one->as<torch::nn::EmbeddingBagImpl>()) {
      if (bag->options.sparse()) weights.push_back(bag->weight);
    }
  }
  return weights;
}

}  // namespace lockstep::parallel
