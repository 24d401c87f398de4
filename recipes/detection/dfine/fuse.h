// SPDX-License-Identifier: Apache-2.0
// Fewer layers for evaluation: a batch norm becomes part of the convolution before it, and re-parameterised branches
// become one convolution.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include <cstdint>

namespace lockstep::detection::dfine {

/// One convolution that gives what a 3x3 with its batch norm and a 1x1 with its own give together.
/// Throws: InternalError where the chains are others.
[[nodiscard]] torch::nn::Conv2d joined_conv(torch::nn::SequentialImpl& three, torch::nn::SequentialImpl& one);

/// Fuses all of `network`, which is in evaluation, and stays there. Returns how many layers there are fewer. The state
/// dict is another one then: it neither goes on training nor takes weights.
std::int64_t fuse(torch::nn::Module& network);

}  // namespace lockstep::detection::dfine
