// SPDX-License-Identifier: Apache-2.0
// Fuses layers for evaluation: a batch norm becomes part of the convolution before it, and re-parameterised branches
// become one convolution.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include <cstdint>

namespace lockstep::detection::dfine {

/// Returns one convolution that replaces the sum of a 3x3 and a 1x1 convolution, each with its batch norm.
/// Throws: InternalError if the chains have other layers.
[[nodiscard]] torch::nn::Conv2d joined_conv(torch::nn::SequentialImpl& three, torch::nn::SequentialImpl& one);

/// Fuses all layers of `network`, which must be in evaluation mode and stay in it. Returns the number of layers
/// removed. This changes the state dict: afterwards, the network can neither be trained further nor load weights.
std::int64_t fuse(torch::nn::Module& network);

}  // namespace lockstep::detection::dfine
