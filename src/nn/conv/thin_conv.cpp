// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "lockstep/tensor/threads.h"
#include "nn/conv/conv_functions.h"
#include "nn/conv/thin_conv_kernel.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kFilterTaps = 9;

/// Returns one image with a border of zeros.
std::vector<float> padded_image(const float* image, std::int64_t height, std::int64_t width) {
  std::vector<float> plane(static_cast<std::size_t>((height + 2) * (width + 2)));
  for (std::int64_t y = 0; y < height; ++y) {
    std::copy(image + y * width, image + (y + 1) * width, plane.data() + (y + 1) * (width + 2) + 1);
  }
  return plane;
}

/// Convolves. `input` and `weight` have the same type; sums are float32.
at::Tensor run(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  const std::int64_t channels = weight.size(0);
  const at::Tensor pixels = input.to(at::kFloat).contiguous();
  const at::Tensor by_tap = weight.to(at::kFloat).reshape({channels, kFilterTaps}).t().contiguous();
  const at::Tensor shift = bias.to(at::kFloat).contiguous();
  const ThinConv conv{.height = input.size(2),
                      .width = input.size(3),
                      .channels = channels,
                      .weights = by_tap.data_ptr<float>(),
                      .bias = shift.data_ptr<float>()};
  const std::int64_t plane = conv.height * conv.width;
  at::Tensor out = at::empty({input.size(0), channels, conv.height, conv.width},
                             input.options().memory_format(at::MemoryFormat::ChannelsLast));
  tensor::parallel_for(0, input.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::vector<float> from = padded_image(pixels.data_ptr<float>() + i * plane, conv.height, conv.width);
      if (out.scalar_type() == at::kFloat) {
        thin_conv(conv, from.data(), out.data_ptr<float>() + i * plane * channels);
      } else {
        thin_conv(conv, from.data(), static_cast<std::uint16_t*>(out.data_ptr()) + i * plane * channels);
      }
    }
  });
  return out;
}

struct ThinGradients {
  at::Tensor weight;  ///< [channels, 1, 3, 3]
  at::Tensor bias;
};

/// Computes the gradients. `grad` is channels-last, of the input's type. Sums within an image are float32; sums over
/// images are double, in order.
ThinGradients thin_gradients(const at::Tensor& input, const at::Tensor& grad) {
  const std::int64_t channels = grad.size(1);
  const at::Tensor pixels = input.to(at::kFloat).contiguous();
  const ThinConv conv{.height = input.size(2), .width = input.size(3), .channels = channels};
  const std::int64_t plane = conv.height * conv.width;
  const at::Tensor sums = at::empty({input.size(0), kFilterTaps + 1, channels}, pixels.options());
  tensor::parallel_for(0, input.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::vector<float> from = padded_image(pixels.data_ptr<float>() + i * plane, conv.height, conv.width);
      float* to = sums.data_ptr<float>() + i * (kFilterTaps + 1) * channels;
      const ThinConvSums into{.weights = to, .bias = to + kFilterTaps * channels};
      if (grad.scalar_type() == at::kFloat) {
        thin_conv_backward(conv, from.data(), grad.data_ptr<float>() + i * plane * channels, into);
      } else {
        thin_conv_backward(conv, from.data(), static_cast<std::uint16_t*>(grad.data_ptr()) + i * plane * channels,
                           into);
      }
    }
  });
  const at::Tensor all = sums.sum(0, false, at::kDouble).to(at::kFloat);
  return {.weight = all.narrow(0, 0, kFilterTaps).t().reshape({channels, 1, 3, 3}), .bias = all[kFilterTaps]};
}

class ThinConvolution : public torch::autograd::Function<ThinConvolution> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias) {
    context->save_for_backward({input, weight});
    return run(input, weight.to(input.scalar_type()), bias.to(input.scalar_type()));
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    refuse_second_derivative();
    const variable_list kept = context->get_saved_variables();
    RECORD_FUNCTION("lockstep::thin_convolution_backward",
                    std::vector<c10::IValue>({kept[0], kept[1], std::int64_t{1}}));
    const ThinGradients found =
        thin_gradients(kept[0], grads[0].to(kept[0].scalar_type()).contiguous(at::MemoryFormat::ChannelsLast));
    return {at::Tensor(), found.weight, found.bias};
  }
};

}  // namespace

at::Tensor thin_convolution(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  RECORD_FUNCTION("lockstep::thin_convolution", std::vector<c10::IValue>({input, weight}));
  return ThinConvolution::apply(input, weight, bias);
}

}  // namespace lockstep::nn
