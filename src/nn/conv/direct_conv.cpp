// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "nn/conv/conv_functions.h"
#include "nn/conv/direct_run.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// bfloat16 is multiplied in pairs of channels: an odd number of channels is padded with one channel of zeros.
at::Tensor evened(const at::Tensor& tensor, std::int64_t dim) {
  if (tensor.size(dim) % 2 == 0) return tensor;
  std::vector<std::int64_t> pad(static_cast<std::size_t>(2 * (tensor.dim() - dim)));
  pad[pad.size() - 1] = 1;
  return at::constant_pad_nd(tensor, pad).contiguous(at::MemoryFormat::ChannelsLast);
}

class DirectConvolution : public torch::autograd::Function<DirectConvolution> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& images, const at::Tensor& weight,
                            const c10::optional<at::Tensor>& bias, const ConvGeometry* geometry) {
    const bool even = images.scalar_type() == at::kFloat;
    const at::Tensor input = even ? images : evened(images, 1);
    context->save_for_backward({input, weight});
    context->saved_data["has_bias"] = bias.has_value();
    context->saved_data["geometry"] = geometry->numbers();
    const at::Tensor filters = even ? weight : evened(weight, 1);
    const DirectConv conv = direct_shape(input, filters, *geometry);
    const float* shift = bias ? bias->data_ptr<float>() : nullptr;
    at::Tensor out = at::empty({conv.images, conv.out, conv.rows.results(), conv.columns.results()},
                               input.options().memory_format(at::MemoryFormat::ChannelsLast));
    return run_direct(direct_forward_plan(conv), input, direct_weights(filters), shift, std::move(out));
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    refuse_second_derivative();
    const variable_list kept = context->get_saved_variables();
    const at::Tensor& input = kept[0];
    const at::Tensor& weight = kept[1];
    const bool exact = input.scalar_type() == at::kFloat;
    const at::Tensor grad = grads[0].to(input.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
    const bool input_wanted = context->needs_input_grad(0);
    const bool weight_wanted = context->needs_input_grad(1);
    const auto geometry = ConvGeometry::from(context->saved_data["geometry"].toIntVector());
    const std::int64_t wanted = std::int64_t{input_wanted} + std::int64_t{weight_wanted};
    RECORD_FUNCTION("lockstep::direct_convolution_backward",
                    std::vector<c10::IValue>({input, weight, geometry.numbers(), wanted}));
    variable_list result(4);
    if (input_wanted) {
      const at::Tensor even_grad = exact ? grad : evened(grad, 1);
      const at::Tensor filters = exact ? weight : evened(weight, 0);
      DirectConv conv = direct_shape(input, filters, geometry);
      at::Tensor out = at::empty({conv.images, conv.in, conv.rows.size, conv.columns.size},
                                 input.options().memory_format(at::MemoryFormat::ChannelsLast));
      result[0] = run_direct(direct_backward_plan(conv), even_grad, direct_weights(filters).turned(conv.taps()),
                             nullptr, std::move(out));
    }
    if (weight_wanted) {
      const at::Tensor filters = exact ? weight : evened(weight, 1);
      const at::Tensor found = direct_weight_gradient(direct_shape(input, filters, geometry), input, grad, filters);
      result[1] = found.size(1) == weight.size(1) ? found : found.narrow(1, 0, weight.size(1)).clone();
    }
    if (context->saved_data["has_bias"].toBool() && context->needs_input_grad(2)) {
      result[2] = direct_bias_gradient(grad, grad.size(1), input.size(0));
    }
    return result;
  }
};

}  // namespace

std::vector<std::int64_t> ConvGeometry::numbers() const {
  return {stride[0], stride[1], padding[0], padding[1], dilation[0], dilation[1]};
}

ConvGeometry ConvGeometry::from(const std::vector<std::int64_t>& numbers) {
  return {
      .stride = {numbers[0], numbers[1]}, .padding = {numbers[2], numbers[3]}, .dilation = {numbers[4], numbers[5]}};
}

at::Tensor direct_convolution(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                              const ConvGeometry& geometry) {
  RECORD_FUNCTION("lockstep::direct_convolution", std::vector<c10::IValue>({input, weight, geometry.numbers()}));
  return DirectConvolution::apply(input, weight, bias.defined() ? c10::optional<at::Tensor>(bias) : c10::nullopt,
                                  &geometry);
}

}  // namespace lockstep::nn
