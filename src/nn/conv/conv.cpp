// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/conv.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <torch/nn/functional/conv.h>

#include <algorithm>
#include <array>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/nn/plain_operators.h"
#include "lockstep/tensor/torch_version.h"
#include "nn/conv/conv_functions.h"
#include "nn/conv/conv_table.h"
#include "nn/vector/kernel_tensors.h"

namespace lockstep::nn {
namespace {

/// True for a depthwise convolution.
bool is_depthwise(const torch::nn::detail::ConvNdOptions<2>& options) {
  return options.groups() > 1 && options.groups() == options.in_channels() &&
         options.in_channels() == options.out_channels();
}

/// True for one group or a depthwise convolution, padded with zeros.
bool fits_kernels(const torch::nn::detail::ConvNdOptions<2>& options) {
  // Index 0 of both variants, whose types depend on the version of libtorch, is the supported case: numeric padding
  // (not "same") and padding with zeros.
  return options.padding().index() == 0 && options.padding_mode().index() == 0 &&
         (options.groups() == 1 || is_depthwise(options));
}

ConvGeometry geometry_of(const torch::nn::detail::ConvNdOptions<2>& options) {
  const auto pair = [](const auto& values) { return std::array<std::int64_t, 2>{(*values)[0], (*values)[1]}; };
  return {.stride = pair(options.stride()),
          .padding = pair(get<0>(options.padding())),
          .dilation = pair(options.dilation())};
}

bool is_plain(const ConvGeometry& geometry, const at::Tensor& weight) {
  const std::array<std::int64_t, 2> ones = {1, 1};
  return weight.size(2) == 3 && weight.size(3) == 3 && geometry.stride == ones && geometry.padding == ones &&
         geometry.dilation == ones;
}

bool has_results(const ConvGeometry& geometry, const at::Tensor& input, const at::Tensor& weight) {
  for (std::size_t i = 0; i < 2; ++i) {
    const auto dim = static_cast<std::int64_t>(i) + 2;
    if (geometry.padding[i] < 0 || geometry.dilation[i] < 1 || geometry.stride[i] < 1) return false;
    if (input.size(dim) + 2 * geometry.padding[i] < geometry.dilation[i] * (weight.size(dim) - 1) + 1) return false;
  }
  return true;
}

/// The weights and options of a convolution.
struct ConvWeights {
  at::Tensor weight;
  at::Tensor bias;  ///< may be undefined
  ConvGeometry geometry;
  bool depthwise = false;
};

/// Returns the type in which autocast would compute the convolution.
at::ScalarType compute_type(const at::Tensor& input) {
  const tensor::AutocastState autocast = tensor::autocast_state(at::kCPU);
  return autocast.enabled ? autocast.dtype : input.scalar_type();
}

/// True if the tensors' layout and autograd state suit the kernel; shapes are not checked.
bool suits(ConvKernel kernel, const at::Tensor& input, const ConvWeights& weights) {
  // With one channel both layouts have the same sizes and memory; this stride shows which is meant.
  const bool is_last = input.size(1) > 1 || weights.weight.stride(1) == 1;
  constexpr auto kLast = at::MemoryFormat::ChannelsLast;
  const bool in_order = input.is_contiguous(kLast) || input.suggest_memory_format() == kLast;
  if (kernel != ConvKernel::kThin) return is_last && in_order;
  return is_last && weights.bias.defined() && !(input.requires_grad() && at::GradMode::is_enabled());
}

/// Returns the number of tiles in all images, each of `side` x `side` results.
std::int64_t tiles_of(const at::Tensor& input, std::int64_t side) {
  return input.size(0) * ((input.size(2) + side - 1) / side) * ((input.size(3) + side - 1) / side);
}

ConvShape shape_of(const at::Tensor& input, const ConvWeights& weights) {
  return {.in = input.size(1),
          .out = weights.weight.size(0),
          .tiles = tiles_of(input, 2),
          .large_tiles = tiles_of(input, 4),
          .bfloat16 = compute_type(input) == at::kBFloat16,
          .plain = is_plain(weights.geometry, weights.weight),
          .depthwise = weights.depthwise};
}

/// Chooses the kernel for this call.
ConvKernel choose(const at::Tensor& input, const ConvWeights& weights) {
  const at::Tensor& weight = weights.weight;
  if (uses_plain_operators() || input.dim() != 4 || !input.device().is_cpu() || input.numel() == 0 ||
      weight.scalar_type() != at::kFloat || input.size(1) != weight.size(weights.depthwise ? 0 : 1) ||
      !has_results(weights.geometry, input, weight)) {
    return ConvKernel::kLibtorch;
  }
  const at::ScalarType type = compute_type(input);
  if (type != at::kFloat && type != at::kBFloat16) return ConvKernel::kLibtorch;
  const ConvKernel kernel = conv_kernel(shape_of(input, weights), conv_processor());
  return kernel != ConvKernel::kLibtorch && suits(kernel, input, weights) ? kernel : ConvKernel::kLibtorch;
}

/// Convolves with one of Lockstep's kernels, in the input's type.
at::Tensor run_kernel(ConvKernel kernel, const at::Tensor& input, const ConvWeights& weights) {
  if (kernel == ConvKernel::kThin) return thin_convolution(input, weights.weight, weights.bias);
  const at::Tensor images = input.contiguous(at::MemoryFormat::ChannelsLast);
  if (kernel == ConvKernel::kWinograd) {
    return winograd_convolution(images, weights.weight, weights.bias, winograd_tile(shape_of(images, weights)));
  }
  if (kernel == ConvKernel::kDepthwise)
    return depthwise_convolution(images, weights.weight, weights.bias, weights.geometry);
  return direct_convolution(images, weights.weight, weights.bias, weights.geometry);
}

}  // namespace

void refuse_second_derivative() {
  if (!at::GradMode::is_enabled()) return;
  throw UsageError("second derivatives through kernels of lockstep::nn::Conv2d are not supported",
                   "call backward() without create_graph, or leave the layers as they are (fused_layers=false)");
}

Conv2dImpl::Conv2dImpl(const torch::nn::Conv2dOptions& conv_options) : Conv2dImpl(*torch::nn::Conv2d(conv_options)) {}

Conv2dImpl::Conv2dImpl(const torch::nn::Conv2dImpl& conv) : options(conv.options), has_kernel_(has_kernel(conv)) {
  if (options.padding_mode().index() != 0) {
    throw UsageError("lockstep::nn::Conv2d supports only zero padding",
                     "use torch::nn::Conv2d for other padding_modes");
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

at::Tensor Conv2dImpl::convolve_by_libtorch(const at::Tensor& images, const at::Tensor& filters,
                                            const at::Tensor& offsets) {
  return torch::nn::functional::detail::conv2d(images, filters, offsets, options.stride(), options.padding(),
                                               options.dilation(), options.groups());
}

at::Tensor Conv2dImpl::forward_without_bias(const at::Tensor& input) {
  RECORD_FUNCTION("lockstep::conv2d", std::vector<c10::IValue>({input, weight}));
  return convolve_by_libtorch(input, weight, {});
}

at::Tensor Conv2dImpl::convolve(const at::Tensor& input) {
  if (!input.device().is_cpu() || !detail::multiplies_slowly(compute_type(input))) {
    return convolve_by_libtorch(input, weight, bias);
  }
  const detail::FullPrecision guard;
  const auto rounded = [](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.to(at::kBFloat16).to(at::kFloat) : tensor;
  };
  const at::Tensor images = rounded(input);
  const ConvWeights weights{rounded(weight), rounded(bias), has_kernel_ ? geometry_of(options) : ConvGeometry{},
                            is_depthwise(options)};
  const ConvKernel kernel = has_kernel_ ? choose(images, weights) : ConvKernel::kLibtorch;
  if (kernel != ConvKernel::kLibtorch) return run_kernel(kernel, images, weights).to(at::kBFloat16);
  return convolve_by_libtorch(images, weights.weight, weights.bias).to(at::kBFloat16);
}

at::Tensor Conv2dImpl::forward(const at::Tensor& input) {
  RECORD_FUNCTION("lockstep::conv2d", std::vector<c10::IValue>({input, weight}));
  if (!has_kernel_) return convolve(input);
  const ConvWeights weights{weight, bias, geometry_of(options), is_depthwise(options)};
  const ConvKernel kernel = choose(input, weights);
  return kernel == ConvKernel::kLibtorch ? convolve(input) : run_kernel(kernel, input.to(compute_type(input)), weights);
}

void Conv2dImpl::pretty_print(std::ostream& stream) const {
  const auto pair = [](const auto& values) { return fmt::format("[{}, {}]", (*values)[0], (*values)[1]); };
  stream << fmt::format("lockstep::nn::Conv2d({}, {}, kernel_size={}, stride={})", options.in_channels(),
                        options.out_channels(), pair(options.kernel_size()), pair(options.stride()));
}

}  // namespace lockstep::nn
