// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/thin_conv.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/tensor/torch_version.h"
#include "nn/thin_conv_kernel.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kTaps = 9;

/// One image with a border of zeros.
std::vector<float> padded(const float* image, std::int64_t height, std::int64_t width) {
  std::vector<float> plane(static_cast<std::size_t>((height + 2) * (width + 2)));
  for (std::int64_t y = 0; y < height; ++y) {
    std::copy(image + y * width, image + (y + 1) * width, plane.data() + (y + 1) * (width + 2) + 1);
  }
  return plane;
}

/// `input` and `weight` of one type; sums are float32.
at::Tensor run(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  const std::int64_t channels = weight.size(0);
  const at::Tensor pixels = input.to(at::kFloat).contiguous();
  const at::Tensor by_tap = weight.to(at::kFloat).reshape({channels, kTaps}).t().contiguous();
  const at::Tensor shift = bias.to(at::kFloat).contiguous();
  const ThinConv conv{.height = input.size(2),
                      .width = input.size(3),
                      .channels = channels,
                      .weights = by_tap.data_ptr<float>(),
                      .bias = shift.data_ptr<float>()};
  const std::int64_t plane = conv.height * conv.width;
  at::Tensor out = at::empty({input.size(0), channels, conv.height, conv.width},
                             input.options().memory_format(at::MemoryFormat::ChannelsLast));
  at::parallel_for(0, input.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::vector<float> from = padded(pixels.data_ptr<float>() + i * plane, conv.height, conv.width);
      if (out.scalar_type() == at::kFloat) {
        thin_conv(conv, from.data(), out.data_ptr<float>() + i * plane * channels);
      } else {
        thin_conv(conv, from.data(), static_cast<std::uint16_t*>(out.data_ptr()) + i * plane * channels);
      }
    }
  });
  return out;
}

class ThinConvolution : public torch::autograd::Function<ThinConvolution> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias) {
    const at::Tensor rounded = weight.to(input.scalar_type());
    context->save_for_backward({input, rounded});
    return run(input, rounded, bias.to(input.scalar_type()));
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    if (at::GradMode::is_enabled()) {
      throw UsageError("a second derivative through lockstep::nn::ThinConv2d",
                       "backward without create_graph, or leave the layers as they are (fused_layers=false)");
    }
    const variable_list kept = context->get_saved_variables();
    const at::Tensor grad = grads[0].to(kept[0].scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
    const auto [none, weight_grad, bias_grad] = at::convolution_backward(
        grad, kept[0], kept[1], {{kept[1].size(0)}}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1, {false, true, true});
    return {at::Tensor(), weight_grad.to(at::kFloat), bias_grad.to(at::kFloat)};
  }
};

/// The type in which autocast would have the convolution.
at::ScalarType compute_type(const at::Tensor& input) {
  const tensor::AutocastState autocast = tensor::autocast_state(at::kCPU);
  return autocast.enabled ? autocast.dtype : input.scalar_type();
}

bool can_run(const at::Tensor& input, const at::Tensor& weight) {
  const bool fits = input.dim() == 4 && input.size(1) == 1 && input.device().is_cpu() && input.numel() > 0 &&
                    !(input.requires_grad() && at::GradMode::is_enabled());
  if (!fits || weight.scalar_type() != at::kFloat || weight.size(0) % 8 != 0) return false;
  const at::ScalarType type = compute_type(input);
  // One channel has two ambiguous layouts; this stride tells which one is meant.
  return weight.stride(1) == 1 && (type == at::kFloat || type == at::kBFloat16);
}

}  // namespace

ThinConv2dImpl::ThinConv2dImpl(std::int64_t channels) : channels_(channels) { reset(); }

ThinConv2dImpl::ThinConv2dImpl(const torch::nn::Conv2dImpl& conv) : channels_(conv.options.out_channels()) {
  weight = register_parameter("weight", conv.weight);
  bias = register_parameter("bias", conv.bias);
  train(conv.is_training());
}

bool ThinConv2dImpl::is_thin(const torch::nn::Conv2dImpl& conv) {
  const auto& options = conv.options;
  const auto all = [](const auto& values, std::int64_t value) {
    return std::all_of(values->begin(), values->end(), [value](std::int64_t one) { return one == value; });
  };
  // The first alternatives: numbers, not "same"; and zeros around the image. Which variant this is depends on libtorch.
  if (options.padding().index() != 0 || options.padding_mode().index() != 0) return false;
  return options.in_channels() == 1 && options.out_channels() % 8 == 0 && options.groups() == 1 && options.bias() &&
         all(get<0>(options.padding()), 1) && all(options.kernel_size(), 3) && all(options.stride(), 1) &&
         all(options.dilation(), 1);
}

void ThinConv2dImpl::reset() {
  const torch::nn::Conv2d fresh(torch::nn::Conv2dOptions(1, channels_, 3).padding(1));
  weight = register_parameter("weight", fresh->weight.detach().clone());
  bias = register_parameter("bias", fresh->bias.detach().clone());
}

at::Tensor ThinConv2dImpl::forward(const at::Tensor& input) {
  if (can_run(input, weight)) return ThinConvolution::apply(input.to(compute_type(input)), weight, bias);
  return at::conv2d(input, weight, bias, 1, 1);
}

void ThinConv2dImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("lockstep::nn::ThinConv2d(1, {}, kernel_size=3, padding=1)", channels_);
}

}  // namespace lockstep::nn
