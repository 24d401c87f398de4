// SPDX-License-Identifier: Apache-2.0
#include "nn/loss/loss_function.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>
#include <vector>

#include "nn/vector/kernel_tensors.h"

namespace lockstep::nn::detail {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool has_16_bits(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kHalf;
}

class LossFunction : public torch::autograd::Function<LossFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const LossKernel* kernel,
                            bool wants_grad) {
    const ComputedLoss computed = kernel->compute(logits, wants_grad);
    context->save_for_backward({computed.grad});
    context->saved_data["class_dimension"] = computed.class_dimension;
    context->saved_data["name"] = std::string(kernel->name());
    return computed.loss;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    refuse_second_derivative(context->saved_data["name"].toStringRef().c_str());
    const at::Tensor grad = context->get_saved_variables()[0];
    const at::Tensor& incoming = grads[0];
    if (incoming.dim() > 0)
      return {
          grad.mul(incoming.unsqueeze(context->saved_data["class_dimension"].toInt()).to(grad.scalar_type())), {}, {}};
    // The factor is usually 1: backward() was called on the loss itself.
    const auto factor = incoming.item<double>();
    return {factor == 1 ? grad : grad.mul(factor), {}, {}};
  }
};

}  // namespace

at::Tensor run_loss(const at::Tensor& logits, const LossKernel& kernel) {
  RECORD_FUNCTION("lockstep::loss", std::vector<c10::IValue>({logits}));
  return LossFunction::apply(logits, &kernel, at::GradMode::is_enabled() && logits.requires_grad());
}

at::Tensor wide_logits(const at::Tensor& logits) { return has_16_bits(logits) ? logits.to(at::kFloat) : logits; }

at::Tensor wide_weight(const at::Tensor& logits, const at::Tensor& weight) {
  return weight.defined() && has_16_bits(logits) ? weight.to(at::kFloat) : weight;
}

at::Tensor sum_losses(const at::Tensor& losses, double scale) {
  double sum = 0;
  const auto* loss = losses.data_ptr<float>();
  for (std::int64_t i = 0; i < losses.numel(); ++i) sum += static_cast<double>(loss[i]);
  return at::scalar_tensor(sum * scale, at::kFloat);
}

}  // namespace lockstep::nn::detail
