// SPDX-License-Identifier: Apache-2.0
#include "detection/model/lab.h"

#include <ATen/ops/add.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/nn/plain_operators.h"

namespace lockstep::detection {
namespace {

/// In the input's type: libtorch's own product of bfloat16 and a float32 parameter is float32, twice the memory here
/// and in every layer that follows.
class Affine : public torch::autograd::Function<Affine> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input, const at::Tensor& scale,
                            const at::Tensor& bias) {
    context->save_for_backward({input, scale});
    // Tensors without dimensions leave the type as it is.
    if (!input.is_cpu()) return input * scale[0] + bias[0];
    return at::add(bias[0].to(input.scalar_type()), input, scale.item());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& grad = gradients[0];
    // The parameters' type: float32 but where a test computes in float64.
    const at::ScalarType type = saved[1].scalar_type();
    return {grad * saved[1][0], (grad * saved[0]).sum(type).view({1}), grad.sum(type).view({1})};
  }
};

}  // namespace

void LabImpl::reset() {
  scale = register_parameter("scale", at::ones({1}));
  bias = register_parameter("bias", at::zeros({1}));
}

at::Tensor LabImpl::forward(const at::Tensor& input) {
  // Affine reads the scale's value, and a tracer would keep that instead of the parameter.
  if (nn::uses_plain_operators()) return input * scale[0] + bias[0];
  return Affine::apply(input, scale, bias);
}

}  // namespace lockstep::detection
