// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/tensor/threads.h"
#include "nn/conv/conv_functions.h"
#include "nn/conv/winograd.h"
#include "nn/conv/winograd_level.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Winograd shape_of(const at::Tensor& input, const at::Tensor& weight, std::int64_t tile) {
  return {.images = input.size(0),
          .height = input.size(2),
          .width = input.size(3),
          .in = weight.size(1),
          .out = weight.size(0),
          .tile = tile};
}

WinogradWeights weights_of(const at::Tensor& weight) {
  return {.data = weight.data_ptr<float>(),
          .out = weight.stride(0),
          .in = weight.stride(1),
          .row = weight.stride(2),
          .column = weight.stride(3)};
}

/// Returns a tensor's data. `T` is the type in memory: float, or the 16 bits of bfloat16.
template <class T>
T* data_of(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

at::Tensor images_of(const Winograd& conv, const at::TensorOptions& options) {
  return at::empty({conv.images, conv.out, conv.height, conv.width},
                   options.memory_format(at::MemoryFormat::ChannelsLast));
}

/// Returns the level of each input channel (winograd_level.h) for bfloat16; empty if there are no levels. float32 is
/// precise enough without them.
template <class T>
std::vector<float> level_of(const Winograd& conv, const at::Tensor& input) {
  if constexpr (std::is_same_v<T, float>) return {};
  return winograd_level(data_of<std::uint16_t>(input), conv.images * conv.height * conv.width, conv.in);
}

template <class T>
at::Tensor run(const Winograd& conv, const at::Tensor& input, const WinogradWeights& weights, const float* bias) {
  const at::Tensor packed = at::empty({conv.points(), conv.point_step()}, input.options());
  winograd_pack(conv, weights, data_of<T>(packed));
  at::Tensor out = images_of(conv, input.options());
  const std::vector<float> level = level_of<T>(conv, input);
  WinogradImages<T> images{.x = data_of<T>(input), .packed = data_of<T>(packed), .y = data_of<T>(out), .bias = bias};
  std::vector<float> level_bias;
  if (!level.empty()) {
    level_bias = winograd_level_bias(conv, weights, level, bias);
    images.bias = level_bias.data();
    images.level = level.data();
  }
  tensor::parallel_for(0, conv.tile_rows(), 1,
                       [&](std::int64_t begin, std::int64_t end) { winograd_forward(conv, images, begin, end); });
  return out;
}

at::Tensor run(const Winograd& conv, const at::Tensor& input, const WinogradWeights& weights, const float* bias) {
  if (input.scalar_type() == at::kFloat) return run<float>(conv, input, weights, bias);
  return run<std::uint16_t>(conv, input, weights, bias);
}

template <class T>
void sum_weights(const Winograd& conv, const WinogradPart<T>& all, const at::Tensor& sums) {
  const std::int64_t rows = winograd_summed_rows(conv, sizeof(T));
  tensor::parallel_for(0, conv.parts(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < conv.tile_rows(); row += rows) {
      const std::int64_t stop = std::min(row + rows, conv.tile_rows());
      for (std::int64_t part = begin; part < end; ++part) {
        float* to = sums.data_ptr<float>() + part * conv.parts() * conv.point_step();
        WinogradPart<T> task = all;
        task.part = part;
        winograd_weight_sums(conv, task, row, stop, to);
      }
    }
  });
}

/// Adds the effect of the subtracted levels to the gradient of the weights. Sums each image separately, then adds the
/// images in order, so that the number of threads does not change the result.
void add_level(const Winograd& conv, const std::vector<float>& level, const at::Tensor& grad,
               const WinogradWeights& gradient) {
  const auto size = static_cast<std::size_t>(9 * conv.out);
  std::vector<double> of_images(static_cast<std::size_t>(conv.images) * size);
  tensor::parallel_for(0, conv.images, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      winograd_add_tap_sums(conv, data_of<std::uint16_t>(grad) + i * conv.height * conv.width * conv.out,
                            of_images.data() + static_cast<std::size_t>(i) * size);
    }
  });
  std::vector<double> sums(size);
  for (std::size_t at = 0; at < of_images.size(); ++at) sums[at % size] += of_images[at];
  winograd_add_level(conv, level, sums, gradient);
}

/// Returns the gradient of the weights, in the layout of `weight`.
template <class T>
at::Tensor weight_gradient(const Winograd& conv, const at::Tensor& input, const at::Tensor& grad,
                           const at::Tensor& weight) {
  const at::Tensor sums = at::empty({conv.points(), conv.point_step()}, weight.options());
  const std::vector<float> level = level_of<T>(conv, input);
  sum_weights<T>(
      conv, {.x = data_of<T>(input), .dy = data_of<T>(grad), .level = level.empty() ? nullptr : level.data()}, sums);
  at::Tensor gradient = at::empty_like(weight);
  winograd_unpack(conv, sums.data_ptr<float>(), weights_of(gradient));
  if (!level.empty()) add_level(conv, level, grad, weights_of(gradient));
  return gradient;
}

at::Tensor weight_gradient(const Winograd& conv, const at::Tensor& input, const at::Tensor& grad,
                           const at::Tensor& weight) {
  if (grad.scalar_type() == at::kFloat) return weight_gradient<float>(conv, input, grad, weight);
  return weight_gradient<std::uint16_t>(conv, input, grad, weight);
}

template <class T>
void sum_images(const at::Tensor& grad, const at::Tensor& sums) {
  const std::int64_t pixels = grad.size(2) * grad.size(3);
  const std::int64_t channels = grad.size(1);
  tensor::parallel_for(0, grad.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      pixel_sums(data_of<const T>(grad) + i * pixels * channels, pixels, channels,
                 sums.data_ptr<float>() + i * channels);
    }
  });
}

/// Returns the gradient of the bias: sums over the pixels of each image, then over the images.
at::Tensor bias_gradient(const at::Tensor& grad) {
  const at::Tensor sums = at::empty({grad.size(0), grad.size(1)}, grad.options().dtype(at::kFloat));
  if (grad.scalar_type() == at::kFloat) {
    sum_images<float>(grad, sums);
  } else {
    sum_images<std::uint16_t>(grad, sums);
  }
  return sums.sum(0, false, at::kDouble).to(at::kFloat);
}

class WinogradConvolution : public torch::autograd::Function<WinogradConvolution> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const c10::optional<at::Tensor>& bias, std::int64_t tile) {
    context->save_for_backward({input, weight});
    context->saved_data["tile"] = tile;
    context->saved_data["has_bias"] = bias.has_value();
    const float* shift = bias ? bias->data_ptr<float>() : nullptr;
    return run(shape_of(input, weight, tile), input, weights_of(weight), shift);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    refuse_second_derivative();
    const variable_list kept = context->get_saved_variables();
    const at::Tensor& input = kept[0];
    const at::Tensor& weight = kept[1];
    const at::Tensor grad = grads[0].to(input.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
    const bool input_wanted = context->needs_input_grad(0);
    const bool weight_wanted = context->needs_input_grad(1);
    RECORD_FUNCTION(
        "lockstep::winograd_convolution_backward",
        std::vector<c10::IValue>({input, weight, std::int64_t{input_wanted} + std::int64_t{weight_wanted}}));
    const Winograd conv = shape_of(input, weight, context->saved_data["tile"].toInt());
    Winograd turned = conv;
    std::swap(turned.in, turned.out);
    variable_list result(4);  // input, weight, bias and tile; the tile has no gradient
    if (input_wanted) result[0] = run(turned, grad, weights_of(weight).turned(), nullptr);
    if (weight_wanted) result[1] = weight_gradient(conv, input, grad, weight);
    if (context->saved_data["has_bias"].toBool() && context->needs_input_grad(2)) result[2] = bias_gradient(grad);
    return result;
  }
};

}  // namespace

at::Tensor winograd_convolution(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                                std::int64_t tile) {
  RECORD_FUNCTION("lockstep::winograd_convolution", std::vector<c10::IValue>({input, weight, tile}));
  // torch::autograd::Function does not accept undefined tensors as inputs.
  const auto shift = bias.defined() ? c10::optional<at::Tensor>(bias) : c10::nullopt;
  return WinogradConvolution::apply(input, weight, shift, tile);
}

}  // namespace lockstep::nn
