// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/conv.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <torch/nn/functional/conv.h>

#include <algorithm>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/nn/plain_operators.h"
#include "lockstep/tensor/torch_version.h"
#include "nn/conv/conv_functions.h"
#include "nn/conv/conv_table.h"
#include "nn/vector/kernel_tensors.h"

namespace lockstep::nn {
namespace {

/// 3x3, padding 1, stride 1, one group, with channels that the kernels take.
bool fits_kernels(const torch::nn::detail::ConvNdOptions<2>& options) {
  const auto all = [](const auto& values, std::int64_t value) {
    return std::all_of(values->begin(), values->end(), [value](std::int64_t one) { return one == value; });
  };
  // The first alternatives: numbers, not "same"; and zeros around the image. Which variant this is depends on libtorch.
  if (options.padding().index() != 0 || options.padding_mode().index() != 0) return false;
  return options.groups() == 1 && all(get<0>(options.padding()), 1) && all(options.kernel_size(), 3) &&
         all(options.stride(), 1) && all(options.dilation(), 1) &&
         conv_kernel_exists(options.in_channels(), options.out_channels()) &&
         (options.in_channels() > 1 || options.bias());
}

/// The type in which autocast would have the convolution.
at::ScalarType compute_type(const at::Tensor& input) {
  const tensor::AutocastState autocast = tensor::autocast_state(at::kCPU);
  return autocast.enabled ? autocast.dtype : input.scalar_type();
}

/// Whether what a kernel asks of the tensors holds, beside the shape.
bool suits(ConvKernel kernel, const at::Tensor& input, const at::Tensor& weight) {
  if (kernel == ConvKernel::kWinograd) return input.is_contiguous(at::MemoryFormat::ChannelsLast);
  // One channel has two ambiguous layouts; this stride tells which one is meant.
  return weight.stride(1) == 1 && !(input.requires_grad() && at::GradMode::is_enabled());
}

/// The kernel for this call.
ConvKernel choose(const at::Tensor& input, const at::Tensor& weight) {
  if (uses_plain_operators() || input.dim() != 4 || !input.device().is_cpu() || input.numel() == 0 ||
      weight.scalar_type() != at::kFloat || input.size(1) != weight.size(1)) {
    return ConvKernel::kLibtorch;
  }
  const at::ScalarType type = compute_type(input);
  if (type != at::kFloat && type != at::kBFloat16) return ConvKernel::kLibtorch;
  const ConvShape shape{.in = weight.size(1),
                        .out = weight.size(0),
                        .tiles = input.size(0) * ((input.size(2) + 1) / 2) * ((input.size(3) + 1) / 2),
                        .bfloat16 = type == at::kBFloat16};
  const ConvKernel kernel = conv_kernel(shape, conv_processor());
  return kernel != ConvKernel::kLibtorch && suits(kernel, input, weight) ? kernel : ConvKernel::kLibtorch;
}

}  // namespace

void refuse_second_derivative() {
  if (!at::GradMode::is_enabled()) return;
  throw UsageError("a second derivative through a kernel of lockstep::nn::Conv2d",
                   "backward without create_graph, or leave the layers as they are (fused_layers=false)");
}

Conv2dImpl::Conv2dImpl(const torch::nn::Conv2dOptions& of) : Conv2dImpl(*torch::nn::Conv2d(of)) {}

Conv2dImpl::Conv2dImpl(const torch::nn::Conv2dImpl& conv) : options(conv.options), has_kernel_(has_kernel(conv)) {
  if (options.padding_mode().index() != 0) {
    throw UsageError("lockstep::nn::Conv2d has zeros around the image only",
                     "take torch::nn::Conv2d for other padding_modes");
  }
  take(conv.weight, conv.bias);
  train(conv.is_training());
}

bool Conv2dImpl::has_kernel(const torch::nn::Conv2dImpl& conv) { return fits_kernels(conv.options); }

void Conv2dImpl::take(const at::Tensor& new_weight, const at::Tensor& new_bias) {
  weight = register_parameter("weight", new_weight, new_weight.requires_grad());
  bias = register_parameter("bias", new_bias, new_bias.defined() && new_bias.requires_grad());
}

void Conv2dImpl::reset() {
  const torch::nn::Conv2d fresh(
      torch::nn::Conv2dOptions(options.in_channels(), options.out_channels(), options.kernel_size())
          .groups(options.groups())
          .bias(options.bias()));
  take(fresh->weight, fresh->bias);
}

at::Tensor Conv2dImpl::convolve(const at::Tensor& input) {
  const auto convolve_in = [this](const at::Tensor& images, const at::Tensor& filters, const at::Tensor& offsets) {
    return torch::nn::functional::detail::conv2d(images, filters, offsets, options.stride(), options.padding(),
                                                 options.dilation(), options.groups());
  };
  if (!input.device().is_cpu() || !detail::multiplies_slowly(compute_type(input))) {
    return convolve_in(input, weight, bias);
  }
  const detail::FullPrecision guard;
  const auto rounded = [](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.to(at::kBFloat16).to(at::kFloat) : tensor;
  };
  const at::Tensor images = rounded(input);
  if (has_kernel_ && choose(images, weight) == ConvKernel::kWinograd) {
    return winograd_convolution(images, rounded(weight), rounded(bias)).to(at::kBFloat16);
  }
  return convolve_in(images, rounded(weight), rounded(bias)).to(at::kBFloat16);
}

at::Tensor Conv2dImpl::forward(const at::Tensor& input) {
  RECORD_FUNCTION("lockstep::conv2d", std::vector<c10::IValue>({input, weight}));
  const ConvKernel kernel = has_kernel_ ? choose(input, weight) : ConvKernel::kLibtorch;
  if (kernel == ConvKernel::kThin) return thin_convolution(input.to(compute_type(input)), weight, bias);
  if (kernel == ConvKernel::kWinograd) return winograd_convolution(input.to(compute_type(input)), weight, bias);
  return convolve(input);
}

void Conv2dImpl::pretty_print(std::ostream& stream) const {
  const auto pair = [](const auto& values) { return fmt::format("[{}, {}]", (*values)[0], (*values)[1]); };
  stream << fmt::format("lockstep::nn::Conv2d({}, {}, kernel_size={}, stride={})", options.in_channels(),
                        options.out_channels(), pair(options.kernel_size()), pair(options.stride()));
}

}  // namespace lockstep::nn
