// SPDX-License-Identifier: Apache-2.0
// A checkpointed segment as in torch.utils.checkpoint: it saves its input and is recomputed in backward.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>

namespace lockstep::testing {

using Segment = std::function<at::Tensor(const at::Tensor&)>;

/// Backward runs an inner backward, which computes the gradients of the segment's parameters.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const Segment* segment) {
    context->save_for_backward({x});
    context->saved_data["segment"] = reinterpret_cast<std::int64_t>(segment);
    return (*segment)(x.detach());
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::AutoGradMode with_gradients(true);
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    const auto* segment = reinterpret_cast<const Segment*>(context->saved_data["segment"].toInt());
    (*segment)(x).backward(gradients[0]);
    return {x.grad(), at::Tensor()};
  }
};

/// Runs the segment. `segment` must outlive backward. Shapes: x must require a gradient, as with
/// torch.utils.checkpoint.
inline at::Tensor recomputed(const Segment& segment, const at::Tensor& x) { return Recomputed::apply(x, &segment); }

}  // namespace lockstep::testing
