// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/scale_shift.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <ATen/record_function.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "lockstep/nn/plain_operators.h"
#include "nn/dense/scale_shift_kernel.h"
#include "nn/vector/kernel_tensors.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kBlock = 1 << 13;  // elements whose gradients are summed in float32

/// True if the kernel accepts the input.
bool has_scale_shift(const at::Tensor& input) { return detail::has_kernel_type(input) && detail::is_dense(input); }

ScaleShiftSpan span_of(const at::Tensor& x, std::int64_t begin, std::int64_t end) {
  return {.type = detail::element_type(x), .x = x.data_ptr(), .begin = begin, .end = end};
}

/// Computes the gradients of input (if requested), scale and shift.
variable_list kernel_gradients(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& scale, bool wanted) {
  const at::Tensor to_input = wanted ? at::empty_like(input) : at::Tensor();
  const auto factor = scale.item<float>();
  detail::BlockSums sums((input.numel() + kBlock - 1) / kBlock, 2);
  detail::for_blocks(input.numel(), kBlock, [&](std::int64_t begin, std::int64_t end, std::int64_t block) {
    const ScaleShiftSums found = scale_shift_backward(span_of(input, begin, end), factor, grad.data_ptr(),
                                                      wanted ? to_input.data_ptr() : nullptr);
    sums.of(block)[0] = found.times_x;
    sums.of(block)[1] = found.plain;
  });
  const at::Tensor both = sums.total();
  return {to_input, both.narrow(0, 0, 1), both.narrow(0, 1, 1)};
}

class ScaleShift : public torch::autograd::Function<ScaleShift> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& scale,
                            const at::Tensor& shift) {
    context->save_for_backward({input, scale});
    if (!has_scale_shift(input)) return (input * scale[0] + shift[0]).to(input.scalar_type());
    at::Tensor out = at::empty_like(input);
    const auto factor = scale.item<float>();
    const auto plus = shift.item<float>();
    detail::for_blocks(input.numel(), kBlock, [&](std::int64_t begin, std::int64_t end, std::int64_t) {
      scale_shift_forward(span_of(input, begin, end), factor, plus, out.data_ptr());
    });
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list kept = context->get_saved_variables();
    const at::Tensor& input = kept[0];
    const at::Tensor& scale = kept[1];
    if (has_scale_shift(input) && grads[0].scalar_type() == input.scalar_type()) {
      detail::refuse_second_derivative("lockstep::nn::scale_shift");
      RECORD_FUNCTION("lockstep::scale_shift_backward", std::vector<c10::IValue>({input}));
      const at::Tensor grad = grads[0].contiguous(input.suggest_memory_format());
      return kernel_gradients(grad, input, scale, context->needs_input_grad(0));
    }
    // Sums in the parameters' type: float32, or float64 in a test.
    const at::ScalarType type = scale.scalar_type();
    return {grads[0] * scale[0], (grads[0] * input).sum(type).view({1}), grads[0].sum(type).view({1})};
  }
};

}  // namespace

at::Tensor scale_shift(const at::Tensor& input, const at::Tensor& scale, const at::Tensor& shift) {
  // The kernel reads the values of scale and shift, so a tracer would record constants instead of parameters.
  if (uses_plain_operators()) return input * scale[0] + shift[0];
  RECORD_FUNCTION("lockstep::scale_shift", std::vector<c10::IValue>({input}));
  return ScaleShift::apply(input, scale, shift);
}

}  // namespace lockstep::nn
