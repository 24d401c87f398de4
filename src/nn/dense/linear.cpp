// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/linear.h"

#include <ATen/ops/linear.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "nn/conv/direct_run.h"
#include "nn/dense/linear_product.h"
#include "nn/vector/kernel_tensors.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kBiasRows = 256;  // rows whose gradients are added up in float32

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows, const at::Tensor& weight,
                            const c10::optional<at::Tensor>& bias) {
    context->save_for_backward({rows, weight});
    context->saved_data["has_bias"] = bias.has_value();
    return detail::linear_product(rows, weight, bias ? *bias : at::Tensor());
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    detail::refuse_second_derivative("lockstep::nn::linear");
    const variable_list kept = context->get_saved_variables();
    const at::Tensor grad = grads[0].to(kept[0].scalar_type()).contiguous();
    const bool rows_wanted = context->needs_input_grad(0);
    const bool weight_wanted = context->needs_input_grad(1);
    RECORD_FUNCTION(
        "lockstep::linear_backward",
        std::vector<c10::IValue>({kept[0], kept[1], std::int64_t{rows_wanted} + std::int64_t{weight_wanted}}));
    variable_list found(3);
    if (rows_wanted) found[0] = detail::linear_input_gradient(grad, kept[1]);
    if (weight_wanted) found[1] = detail::linear_weight_gradient(grad, kept[0], kept[1]);
    if (context->saved_data["has_bias"].toBool() && context->needs_input_grad(2)) {
      const std::int64_t rows = grad.numel() / grad.size(-1);
      found[2] = direct_bias_gradient(grad, grad.size(-1), std::max<std::int64_t>(1, rows / kBiasRows));
    }
    return found;
  }
};

bool can_multiply(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  const auto type = detail::product_type(input);
  if (!type || input.dim() == 0 || weight.dim() != 2 || input.size(-1) != weight.size(1)) return false;
  if (bias.defined() && !(detail::is_float_vector(bias) && bias.numel() == weight.size(0))) return false;
  return detail::has_linear_product(*type, weight);
}

}  // namespace

at::Tensor linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  if (!can_multiply(input, weight, bias)) return at::linear(input, weight, bias);
  RECORD_FUNCTION("lockstep::linear", std::vector<c10::IValue>({input, weight}));
  // A torch::autograd::Function does not accept undefined tensors as inputs.
  return LinearFunction::apply(input.to(*detail::product_type(input)).contiguous(), weight,
                               bias.defined() ? c10::optional<at::Tensor>(bias) : c10::nullopt);
}

LinearImpl::LinearImpl(const torch::nn::LinearOptions& linear_options) : options(linear_options) { reset(); }

LinearImpl::LinearImpl(const torch::nn::LinearImpl& layer) : options(layer.options) {
  weight = register_parameter("weight", layer.weight, layer.weight.requires_grad());
  bias = register_parameter("bias", layer.bias, layer.bias.defined() && layer.bias.requires_grad());
  train(layer.is_training());
}

void LinearImpl::reset() {
  const torch::nn::Linear fresh(options);
  weight = register_parameter("weight", fresh->weight.detach());
  bias = register_parameter("bias", fresh->bias.defined() ? fresh->bias.detach() : at::Tensor(), options.bias());
}

at::Tensor LinearImpl::forward(const at::Tensor& input) { return linear(input, weight, bias); }

void LinearImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("lockstep::nn::Linear({}, {}, bias={})", options.in_features(), options.out_features(),
                        options.bias());
}

}  // namespace lockstep::nn
