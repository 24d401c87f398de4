// SPDX-License-Identifier: Apache-2.0
// optimize(): replaces chains of separate layers with fused ones.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <torch/nn/module.h>

#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// The chains that optimize() replaced, and those that it could not.
struct Optimized {
  /// A chain of consecutive layers.
  struct Chain {
    std::string name;  ///< name of the chain's first layer: "features.1"
    std::string what;  ///< "BatchNorm2d + ReLU + MaxPool2d", and the reason if the chain was left as it is
  };
  std::vector<Chain> fused;  ///< chains that were replaced
  std::vector<Chain> left;   ///< chains that were left as they are
};

/// Replaces every BatchNorm2d (Lockstep's or libtorch's) + [Dropout] + ReLU + [MaxPool2d of 2x2, stride 2] inside a
/// torch::nn::Sequential, at any depth, with a BatchNormReLU2d in place of the first layer and empty layers in place of
/// the others. It also replaces Linear + ReLU, with Dropout between or after them (LinearReLU), and single Linear,
/// LayerNorm, Dropout and ReLU (not in place) layers. A torch::nn::Conv2d for which lockstep::nn::Conv2d has kernels
/// becomes a lockstep::nn::Conv2d. Names, parameters and state dict do not change. Chains outside a Sequential stay as
/// they are, because a module with its own forward() holds its layers by their types: write such modules with Conv2d,
/// BatchNormReLU2d (with a residual), Linear and attention() of lockstep::nn.
///
/// Call it before an optimizer or a DistributedDataParallel records the parameters' names.
/// Example: const nn::Optimized done = nn::optimize(*net);
Optimized optimize(torch::nn::Module& model);

}  // namespace lockstep::nn

#pragma GCC visibility pop
