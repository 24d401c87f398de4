// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layer_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "nn/norm/layer_norm_kernel.h"
#include "nn/vector/kernel_table.h"
#include "nn/vector/kernel_tensors.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kLayerNormElements = 1 << 15;  // elements of a block of rows in forward
constexpr std::int64_t kLayerNormRows = 64;  // rows of a block in backward; each block has its own sums by column

struct Layer {
  at::Tensor input;
  at::Tensor weight;
  at::Tensor bias;     ///< undefined in backward
  at::Tensor moments;  ///< [2, rows]: means, then inverse deviations
};

LayerNormPass kernel_of(const Layer& layer) {
  const std::int64_t width = layer.weight.numel();
  auto* moments = layer.moments.data_ptr<float>();
  return {.type = detail::element_type(layer.input),
          .width = width,
          .x = layer.input.data_ptr(),
          .weight = layer.weight.data_ptr<float>(),
          .bias = layer.bias.defined() ? layer.bias.data_ptr<float>() : nullptr,
          .mean = moments,
          .inverse = moments + layer.input.numel() / width};
}

/// Computes the gradients of input, weight and bias.
variable_list gradients(const Layer& layer, const at::Tensor& grad) {
  const LayerNormPass kernel = kernel_of(layer);
  const std::int64_t rows = layer.input.numel() / kernel.width;
  at::Tensor input_grad = at::empty_like(layer.input);
  detail::BlockSums sums((rows + kLayerNormRows - 1) / kLayerNormRows, 2 * padded(kernel.width));
  detail::for_blocks(rows, kLayerNormRows, [&](std::int64_t begin, std::int64_t end, std::int64_t block) {
    layer_norm_backward(kernel, {begin, end}, grad.data_ptr(), input_grad.data_ptr(), sums.of(block));
  });
  const at::Tensor both = sums.total().view({2, -1}).narrow(1, 0, kernel.width);
  return {input_grad, both[0].view(layer.weight.sizes()), both[1].view(layer.weight.sizes())};
}

class LayerNormFunction : public torch::autograd::Function<LayerNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias, double eps) {
    const std::int64_t rows = input.numel() / weight.numel();
    const Layer layer{input, weight, bias, at::empty({2, rows}, at::kFloat)};
    const LayerNormPass kernel = kernel_of(layer);
    at::Tensor out = at::empty_like(input);
    const std::int64_t block = std::max<std::int64_t>(1, kLayerNormElements / kernel.width);
    detail::for_blocks(rows, block, [&](std::int64_t begin, std::int64_t end, std::int64_t /*block*/) {
      layer_norm_forward(kernel, {begin, end}, eps, out.data_ptr());
    });
    context->save_for_backward({input, weight, layer.moments});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    detail::refuse_second_derivative("lockstep::nn::LayerNorm");
    const variable_list saved = context->get_saved_variables();
    variable_list found = gradients({saved[0], saved[1], {}, saved[2]}, grads[0].contiguous());
    found.emplace_back();
    return found;
  }
};

}  // namespace

LayerNormImpl::LayerNormImpl(const torch::nn::LayerNormOptions& layer) : options(layer) { reset(); }

LayerNormImpl::LayerNormImpl(const torch::nn::LayerNormImpl& layer) : options(layer.options) {
  weight = register_parameter("weight", layer.weight, layer.weight.defined() && layer.weight.requires_grad());
  bias = register_parameter("bias", layer.bias, layer.bias.defined() && layer.bias.requires_grad());
  train(layer.is_training());
}

void LayerNormImpl::reset() {
  const bool affine = options.elementwise_affine();
  const auto& shape = options.normalized_shape();
  weight = register_parameter("weight", affine ? at::ones(shape) : at::Tensor(), affine);
  bias = register_parameter("bias", affine ? at::zeros(shape) : at::Tensor(), affine);
}

at::Tensor LayerNormImpl::forward(const at::Tensor& input) {
  const auto& shape = options.normalized_shape();
  const auto last = input.dim() - static_cast<std::int64_t>(shape.size());
  // libtorch 1.13 has no layer norm of bfloat16 with float32 weights.
  const bool only_ours = input.scalar_type() == at::kBFloat16;
  const bool ours = detail::has_kernel_type(input) && (only_ours || input.is_contiguous()) &&
                    detail::is_float_vector(weight) && detail::is_float_vector(bias) && last >= 0 &&
                    input.sizes().slice(static_cast<std::size_t>(last)) == at::IntArrayRef(shape);
  if (ours && (only_ours || layer_norm_is_faster(input.numel() / weight.numel(), weight.numel()))) {
    RECORD_FUNCTION("lockstep::layer_norm", std::vector<c10::IValue>({input, weight}));
    return LayerNormFunction::apply(input.contiguous(), weight, bias, options.eps());
  }
  return at::layer_norm(input, shape, weight, bias, options.eps());
}

void LayerNormImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("lockstep::nn::LayerNorm([{}], eps={}, elementwise_affine={})",
                        fmt::join(options.normalized_shape(), ", "), options.eps(), options.elementwise_affine());
}

}  // namespace lockstep::nn
