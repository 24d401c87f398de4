// The network.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/modules/linear.h>

struct Net : torch::nn::Module {
  explicit Net(int64_t width);
  at::Tensor forward(const at::Tensor& x);

  torch::nn::Linear hidden, out;
};
