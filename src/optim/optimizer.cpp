// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/Tensor.h>

namespace lockstep {

void Optimizer::step_scaled_by(const at::Tensor& grad_scale) { step(grad_scale.item<double>()); }

void Optimizer::digest_updates(const std::vector<std::int64_t>& /*begins*/) {}

void Optimizer::zero_grad(bool set_to_none) {
  const at::NoGradGuard no_grad;
  for (const auto& item : parameters()) {
    at::Tensor& grad = item.second.mutable_grad();
    if (!grad.defined()) continue;
    if (set_to_none) {
      grad = at::Tensor();
    } else {
      grad.detach_().zero_();
    }
  }
}

}  // namespace lockstep
