// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/linear_relu.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "nn/dense/activation_kernel.h"
#include "nn/dense/linear_product.h"
#include "nn/vector/dropout_bits.h"
#include "nn/vector/kernel_table.h"
#include "nn/vector/kernel_tensors.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kLinearElements = 1 << 15;  // elements of a block of rows
constexpr std::int64_t kLinearRows = 128;          // minimum rows of a block; each block has its own sums by column

std::int64_t rows_in_block(std::int64_t channels) { return std::max(kLinearRows, kLinearElements / channels); }

/// Applies bias, dropout and ReLU to the product [..., channels], in place. `kept`: undefined without dropout.
void activate(const at::Tensor& product, const at::Tensor& bias, const at::Tensor& kept, double dropout) {
  const std::int64_t channels = product.size(-1);
  const KeptBits bits{kept.defined() ? kept.data_ptr<std::uint8_t>() : nullptr, static_cast<float>(1 / (1 - dropout))};
  const std::int64_t block = std::max<std::int64_t>(1, kLinearElements / channels);
  detail::for_blocks(product.numel() / channels, block, [&](std::int64_t begin, std::int64_t end, std::int64_t) {
    bias_relu_pass(detail::element_type(product), product.data_ptr(), {begin, end, channels}, bias.data_ptr<float>(),
                   bits);
  });
}

/// Multiplies matrices, in float32 if products of their type are slow.
at::Tensor multiplied(const at::Tensor& rows, const at::Tensor& columns) {
  const at::ScalarType type = rows.scalar_type();
  if (!detail::multiplies_slowly(type)) return rows.mm(columns);
  const detail::FullPrecision guard;  // backward may run under autocast
  return rows.to(at::kFloat).mm(columns.to(at::kFloat)).to(type);
}

at::Tensor multiplied_by_weight(const at::Tensor& input, const at::Tensor& weight) {
  const at::ScalarType type = input.scalar_type();
  if (!detail::multiplies_slowly(type)) return at::linear(input, weight);
  const detail::FullPrecision guard;
  return at::linear(input.to(at::kFloat), weight.to(at::kFloat)).to(type);
}

at::Tensor filled_dropout_bits(std::int64_t numel, double dropout) {
  if (dropout == 0) return {};
  const detail::DropoutBits made = detail::make_dropout_bits(numel);
  auto* bits = made.bits.data_ptr<std::uint8_t>();
  detail::for_blocks((numel + 127) / 128, kLinearElements / 128,
                     [&](std::int64_t begin, std::int64_t end, std::int64_t) {
                       fill_dropout_bits(bits, begin, end, made.seed, 1 - dropout);
                     });
  return made.bits;
}

/// The gradient before bias, dropout and ReLU, and the gradient of the bias.
struct Gradients {
  at::Tensor product;
  at::Tensor bias;
};

Gradients deactivate(const at::Tensor& grad, const at::Tensor& out, double dropout) {
  const std::int64_t channels = out.size(-1);
  const std::int64_t rows = out.numel() / channels;
  const std::int64_t block = rows_in_block(channels);
  Gradients found{at::empty_like(out), {}};
  const BiasReluBackward pass{.type = detail::element_type(out),
                              .out = out.data_ptr(),
                              .grad = grad.data_ptr(),
                              .grad_in = found.product.data_ptr(),
                              .scale = static_cast<float>(1 / (1 - dropout))};
  detail::BlockSums sums((rows + block - 1) / block, padded(channels));
  detail::for_blocks(rows, block, [&](std::int64_t begin, std::int64_t end, std::int64_t index) {
    bias_relu_backward_pass(pass, {begin, end, channels}, sums.of(index));
  });
  found.bias = sums.total().narrow(0, 0, channels);
  return found;
}

class LinearReLUFunction : public torch::autograd::Function<LinearReLUFunction> {
 public:
  /// `input` has the type of the product, which may differ from the parameters'. `bias` is optional, because a
  /// torch::autograd::Function does not accept undefined tensors.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const c10::optional<at::Tensor>& bias, double dropout) {
    // Casts the weight here rather than in autocast: autocast would cache the weight without gradients, and use it
    // later.
    const bool ours = detail::has_linear_product(input.scalar_type(), weight);
    const at::Tensor rows = ours ? input.contiguous() : input;
    const at::Tensor rounded = ours ? weight : weight.to(input.scalar_type());
    at::Tensor out = ours ? detail::linear_product(rows, weight, {}) : multiplied_by_weight(rows, rounded).contiguous();
    const bool has_bias = bias.has_value() && bias->defined();
    activate(out, has_bias ? *bias : at::zeros({out.size(-1)}, at::kFloat), filled_dropout_bits(out.numel(), dropout),
             dropout);
    context->save_for_backward({rows, rounded, out});
    context->saved_data["dropout"] = dropout;
    context->saved_data["input"] = input.requires_grad();
    context->saved_data["weight"] = weight.requires_grad();
    context->saved_data["bias"] = has_bias && bias->requires_grad();
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    detail::refuse_second_derivative("lockstep::nn::LinearReLU");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& out = saved[2];
    const auto wanted = [&](const char* which) { return context->saved_data[which].toBool(); };
    const Gradients found = deactivate(grads[0].contiguous(), out, context->saved_data["dropout"].toDouble());
    at::Tensor input_grad;
    at::Tensor weight_grad;
    if (detail::has_linear_product(input.scalar_type(), saved[1])) {
      const std::int64_t count = std::int64_t{wanted("input")} + std::int64_t{wanted("weight")};
      RECORD_FUNCTION("lockstep::linear_backward", std::vector<c10::IValue>({input, saved[1], count}));
      if (wanted("input")) input_grad = detail::linear_input_gradient(found.product, saved[1]);
      if (wanted("weight")) weight_grad = detail::linear_weight_gradient(found.product, input, saved[1]);
      return {input_grad, weight_grad, wanted("bias") ? found.bias : at::Tensor(), at::Tensor()};
    }
    const at::Tensor rows = found.product.view({-1, out.size(-1)});
    if (wanted("input")) input_grad = multiplied(rows, saved[1]).view(input.sizes());
    if (wanted("weight")) weight_grad = multiplied(rows.t(), input.reshape({-1, input.size(-1)})).to(at::kFloat);
    return {input_grad, weight_grad, wanted("bias") ? found.bias : at::Tensor(), at::Tensor()};
  }
};

bool can_run(const at::Tensor& input, const LinearReLUImpl& layer, double dropout) {
  if (!detail::product_type(input) || input.dim() == 0 || dropout >= 1) return false;
  if (layer.weight.scalar_type() != at::kFloat || input.size(-1) != layer.weight.size(1)) return false;
  if (layer.bias.defined() && !detail::is_float_vector(layer.bias)) return false;
  return linear_relu_is_faster(
      {.rows = input.numel() / input.size(-1), .channels = layer.weight.size(0), .dropout = dropout > 0});
}

}  // namespace

LinearReLUImpl::LinearReLUImpl(const torch::nn::LinearOptions& linear, LinearReLUOptions then)
    : options(linear), then_(then) {
  reset();
}

LinearReLUImpl::LinearReLUImpl(const torch::nn::LinearImpl& linear, LinearReLUOptions then)
    : options(linear.options), then_(then) {
  weight = register_parameter("weight", linear.weight, linear.weight.requires_grad());
  bias = register_parameter("bias", linear.bias, linear.bias.defined() && linear.bias.requires_grad());
  train(linear.is_training());
}

void LinearReLUImpl::reset() {
  const torch::nn::Linear fresh(options);
  weight = register_parameter("weight", fresh->weight.detach());
  bias = register_parameter("bias", fresh->bias.defined() ? fresh->bias.detach() : at::Tensor(), options.bias());
}

at::Tensor LinearReLUImpl::forward(const at::Tensor& input) {
  const double dropout = is_training() ? then_.dropout : 0;
  if (can_run(input, *this, dropout)) {
    RECORD_FUNCTION("lockstep::linear_relu", std::vector<c10::IValue>({input, weight}));
    return LinearReLUFunction::apply(input.to(*detail::product_type(input)), weight, c10::optional<at::Tensor>(bias),
                                     dropout);
  }
  at::Tensor out = at::linear(input, weight, bias);
  if (dropout > 0) out = at::dropout(out, dropout, true);
  return at::relu(out);
}

void LinearReLUImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("lockstep::nn::LinearReLU({}, {}, bias={})", options.in_features(), options.out_features(),
                        options.bias());
  if (then_.dropout > 0) stream << fmt::format(" + Dropout({})", then_.dropout);
}

}  // namespace lockstep::nn
