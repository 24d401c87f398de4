// SPDX-License-Identifier: Apache-2.0
#include "nn/dense/linear_product.h"

#include <ATen/ops/empty.h>
#include <ATen/record_function.h>

#include <vector>

#include "nn/conv/conv_table.h"
#include "nn/conv/direct_run.h"

namespace lockstep::nn::detail {
namespace {

/// Describes the product as a 1x1 convolution over rows.
DirectConv conv_of_rows(const at::Tensor& rows, const at::Tensor& weight) {
  return {.images = 1,
          .rows = {.size = rows.numel() / rows.size(-1)},
          .columns = {},
          .in = weight.size(1),
          .out = weight.size(0)};
}

at::Tensor rows_like(const at::Tensor& tensor, std::int64_t width) {
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  sizes.back() = width;
  return at::empty(sizes, tensor.options());
}

at::Tensor as_filters(const at::Tensor& weight) { return weight.unsqueeze(2).unsqueeze(3); }

}  // namespace

bool has_linear_product(at::ScalarType type, const at::Tensor& weight) {
  if (weight.scalar_type() != at::kFloat || !weight.device().is_cpu() || weight.dim() != 2) return false;
  const bool bfloat16 = type == at::kBFloat16;
  if (bfloat16 && (weight.size(0) % 2 != 0 || weight.size(1) % 2 != 0)) return false;
  return (bfloat16 || type == at::kFloat) && weight.numel() > 0 && direct_serves(bfloat16, conv_processor());
}

at::Tensor linear_product(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias) {
  RECORD_FUNCTION("lockstep::linear_product", std::vector<c10::IValue>({rows, weight}));
  const DirectConv conv = conv_of_rows(rows, weight);
  return run_direct(direct_forward_plan(conv), rows, direct_weights(as_filters(weight)),
                    bias.defined() ? bias.data_ptr<float>() : nullptr, rows_like(rows, conv.out));
}

at::Tensor linear_input_gradient(const at::Tensor& grad, const at::Tensor& weight) {
  const DirectConv conv = conv_of_rows(grad, weight);
  return run_direct(direct_backward_plan(conv), grad, direct_weights(as_filters(weight)).turned(1), nullptr,
                    rows_like(grad, conv.in));
}

at::Tensor linear_weight_gradient(const at::Tensor& grad, const at::Tensor& rows, const at::Tensor& weight) {
  return direct_weight_gradient(conv_of_rows(rows, weight), rows, grad, as_filters(weight)).squeeze(3).squeeze(2);
}

}  // namespace lockstep::nn::detail
