// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/activation.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/relu.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "lockstep/base/error.h"
#include "nn/dense/activation_kernel.h"
#include "nn/vector/dropout_bits.h"
#include "nn/vector/kernel_table.h"
#include "nn/vector/kernel_tensors.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kChunk = 1 << 15;  // elements: a multiple of 128, the size of a block of dropout bits

/// Returns the gradient in the memory order that forward used.
at::Tensor in_order(const at::Tensor& grad, at::MemoryFormat layout) { return grad.contiguous(layout); }

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, double dropout) {
    const detail::DropoutBits made = detail::make_dropout_bits(input.numel());
    context->save_for_backward({made.bits});
    context->saved_data["dropout"] = dropout;
    context->saved_data["layout"] = static_cast<std::int64_t>(input.suggest_memory_format());
    at::Tensor out = at::empty_like(input);
    auto* bits = made.bits.data_ptr<std::uint8_t>();
    detail::for_blocks(input.numel(), kChunk, [&](std::int64_t begin, std::int64_t end, std::int64_t /*block*/) {
      fill_dropout_bits(bits, begin / 128, (end + 127) / 128, made.seed, 1 - dropout);
      dropout_pass(detail::element_type(input), input.data_ptr(), out.data_ptr(), {begin, end},
                   {bits, scale_of(dropout)});
    });
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    detail::refuse_second_derivative("lockstep::nn::Dropout");
    const at::Tensor bits = context->get_saved_variables()[0];
    const auto layout = static_cast<at::MemoryFormat>(context->saved_data["layout"].toInt());
    const at::Tensor grad = in_order(grads[0], layout);
    const KeptBits kept{bits.data_ptr<std::uint8_t>(), scale_of(context->saved_data["dropout"].toDouble())};
    at::Tensor result = at::empty_like(grad);
    detail::for_blocks(grad.numel(), kChunk, [&](std::int64_t begin, std::int64_t end, std::int64_t /*block*/) {
      dropout_pass(detail::element_type(grad), grad.data_ptr(), result.data_ptr(), {begin, end}, kept);
    });
    return {result, at::Tensor()};
  }

 private:
  static float scale_of(double dropout) { return static_cast<float>(1 / (1 - dropout)); }
};

class ReLUFunction : public torch::autograd::Function<ReLUFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input) {
    const at::Tensor bits = at::empty({dropout_bytes(input.numel())}, at::kByte);
    auto* to = bits.data_ptr<std::uint8_t>();
    at::Tensor out = at::empty_like(input);
    detail::for_blocks(input.numel(), kChunk, [&](std::int64_t begin, std::int64_t end, std::int64_t /*block*/) {
      relu_pass(detail::element_type(input), input.data_ptr(), out.data_ptr(), to, {begin, end});
    });
    context->save_for_backward({bits});
    context->saved_data["layout"] = static_cast<std::int64_t>(input.suggest_memory_format());
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    detail::refuse_second_derivative("lockstep::nn::ReLU");
    const at::Tensor bits = context->get_saved_variables()[0];
    const auto* bit_data = bits.data_ptr<std::uint8_t>();
    const auto layout = static_cast<at::MemoryFormat>(context->saved_data["layout"].toInt());
    const at::Tensor grad = in_order(grads[0], layout);
    at::Tensor result = at::empty_like(grad);
    detail::for_blocks(grad.numel(), kChunk, [&](std::int64_t begin, std::int64_t end, std::int64_t /*block*/) {
      relu_backward_pass(detail::element_type(grad), grad.data_ptr(), bit_data, result.data_ptr(), {begin, end});
    });
    return {result};
  }
};

}  // namespace

DropoutImpl::DropoutImpl(double p) : p_(p) {
  if (p >= 0 && p <= 1) return;
  throw UsageError(fmt::format("the dropout probability is {}", p), "it must be between 0 and 1");
}

at::Tensor DropoutImpl::forward(const at::Tensor& input) {
  if (!is_training() || p_ == 0) return input;
  const bool ours = p_ < 1 && detail::has_kernel_type(input) && detail::is_dense(input);
  if (ours && dropout_is_faster(input.numel())) {
    RECORD_FUNCTION("lockstep::dropout", std::vector<c10::IValue>({input}));
    return DropoutFunction::apply(input, p_);
  }
  return at::dropout(input, p_, true);
}

void DropoutImpl::pretty_print(std::ostream& stream) const { stream << fmt::format("lockstep::nn::Dropout(p={})", p_); }

at::Tensor ReLUImpl::forward(const at::Tensor& input) {
  const bool ours = detail::has_kernel_type(input) && detail::is_dense(input);
  if (ours && relu_is_faster(input.numel())) {
    RECORD_FUNCTION("lockstep::relu", std::vector<c10::IValue>({input}));
    return ReLUFunction::apply(input);
  }
  return at::relu(input);
}

void ReLUImpl::pretty_print(std::ostream& stream) const { stream << "lockstep::nn::ReLU()"; }

}  // namespace lockstep::nn
