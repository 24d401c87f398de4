// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "lockstep/tensor/threads.h"
#include "nn/conv/conv_functions.h"
#include "nn/conv/depthwise.h"
#include "nn/conv/direct_run.h"
#include "nn/vector/kernel_tensors.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Returns the shape of a single image; all images have the same shape.
DirectConv depthwise_shape(const at::Tensor& input, const at::Tensor& weight, const ConvGeometry& geometry) {
  DirectConv conv = direct_shape(input, weight, geometry);
  conv.images = 1;
  conv.in = conv.out;
  return conv;
}

/// Returns the weights as [taps, channels].
at::Tensor by_tap(const at::Tensor& weight) { return weight.reshape({weight.size(0), -1}).t().contiguous(); }

/// Returns image `index` of a dense batch.
void* depthwise_image(const at::Tensor& batch, std::int64_t index) {
  return static_cast<char*>(batch.data_ptr()) + index * static_cast<std::int64_t>(batch.nbytes()) / batch.size(0);
}

template <class F>
void for_each_image(const at::Tensor& batch, F f) {
  tensor::parallel_for(0, batch.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(i);
  });
}

at::Tensor run_depthwise(const DirectPlan& plan, const at::Tensor& input, const at::Tensor& weights, const float* bias,
                         at::Tensor out) {
  for_each_image(input, [&](std::int64_t i) {
    depthwise_forward(plan, {.type = detail::element_type(input),
                             .x = depthwise_image(input, i),
                             .weights = weights.data_ptr<float>(),
                             .bias = bias,
                             .y = depthwise_image(out, i)});
  });
  return out;
}

/// Returns the gradient of the weights. Sums within an image in float32; over images in order, in double.
at::Tensor depthwise_gradient(const DirectPlan& plan, const at::Tensor& input, const at::Tensor& grad,
                              const at::Tensor& weight) {
  detail::BlockSums sums(input.size(0), weight.numel());
  for_each_image(input, [&](std::int64_t i) {
    depthwise_weight_sums(plan, detail::element_type(input), depthwise_image(input, i), depthwise_image(grad, i),
                          sums.of(i));
  });
  at::Tensor found = at::empty_like(weight);
  found.copy_(sums.total().view({-1, weight.size(0)}).t().reshape(weight.sizes()));
  return found;
}

class DepthwiseConvolution : public torch::autograd::Function<DepthwiseConvolution> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const c10::optional<at::Tensor>& bias, const ConvGeometry* geometry) {
    context->save_for_backward({input, weight});
    context->saved_data["has_bias"] = bias.has_value();
    context->saved_data["geometry"] = geometry->numbers();
    const DirectConv conv = depthwise_shape(input, weight, *geometry);
    at::Tensor out = at::empty({input.size(0), conv.out, conv.rows.results(), conv.columns.results()},
                               input.options().memory_format(at::MemoryFormat::ChannelsLast));
    return run_depthwise(direct_forward_plan(conv), input, by_tap(weight), bias ? bias->data_ptr<float>() : nullptr,
                         std::move(out));
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    refuse_second_derivative();
    const variable_list kept = context->get_saved_variables();
    const at::Tensor& input = kept[0];
    const at::Tensor& weight = kept[1];
    const auto geometry = ConvGeometry::from(context->saved_data["geometry"].toIntVector());
    const std::int64_t wanted = std::int64_t{context->needs_input_grad(0)} + std::int64_t{context->needs_input_grad(1)};
    RECORD_FUNCTION("lockstep::depthwise_convolution_backward",
                    std::vector<c10::IValue>({input, weight, geometry.numbers(), wanted}));
    const at::Tensor grad = grads[0].to(input.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
    const DirectConv conv = depthwise_shape(input, weight, geometry);
    variable_list found(4);
    if (context->needs_input_grad(0)) {
      found[0] = run_depthwise(direct_backward_plan(conv), grad, by_tap(weight).flip(0).contiguous(), nullptr,
                               at::empty_like(input));
    }
    if (context->needs_input_grad(1)) found[1] = depthwise_gradient(direct_forward_plan(conv), input, grad, weight);
    if (context->saved_data["has_bias"].toBool() && context->needs_input_grad(2)) {
      found[2] = direct_bias_gradient(grad, grad.size(1), grad.size(0));
    }
    return found;
  }
};

}  // namespace

at::Tensor depthwise_convolution(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                                 const ConvGeometry& geometry) {
  RECORD_FUNCTION("lockstep::depthwise_convolution", std::vector<c10::IValue>({input, weight, geometry.numbers()}));
  return DepthwiseConvolution::apply(input, weight, bias.defined() ? c10::optional<at::Tensor>(bias) : c10::nullopt,
                                     &geometry);
}

}  // namespace lockstep::nn
