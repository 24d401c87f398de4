// SPDX-License-Identifier: Apache-2.0
// The learnable affine block of HGNetv2: a scale and a bias for a whole tensor, after an activation.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

namespace lockstep::detection {

/// scale * x + bias, both numbers.
/// Cost: a pass over memory each way.
class LabImpl final : public torch::nn::Cloneable<LabImpl> {
 public:
  LabImpl() { reset(); }  // NOLINT(clang-analyzer-optin.cplusplus.VirtualCall)
  void reset() override;
  at::Tensor forward(const at::Tensor& input);

  at::Tensor scale;
  at::Tensor bias;
};
TORCH_MODULE(Lab);

}  // namespace lockstep::detection
