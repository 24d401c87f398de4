// SPDX-License-Identifier: Apache-2.0
#include "nn/conv/direct_run.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "lockstep/tensor/threads.h"
#include "nn/conv/direct_blocks.h"
#include "nn/vector/kernel_tensors.h"

namespace lockstep::nn {
namespace {

template <class T>
T* memory_of(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

template <class T>
at::Tensor run_direct_in(const DirectPlan& plan, const at::Tensor& input, const DirectWeights& weights,
                         const float* bias, at::Tensor out) {
  const at::Tensor packed = at::empty({direct_packed_size(plan)}, input.options());
  direct_pack(plan, weights, memory_of<T>(packed));
  std::vector<float> shift;
  if (bias != nullptr) {
    shift.assign(static_cast<std::size_t>(direct_columns(plan.out)), 0.0F);
    std::copy(bias, bias + plan.out, shift.begin());
  }
  const DirectImages<T> images{.x = memory_of<T>(input),
                               .packed = memory_of<T>(packed),
                               .y = memory_of<T>(out),
                               .bias = bias == nullptr ? nullptr : shift.data()};
  tensor::parallel_for(0, plan.pieces(), 1,
                       [&](std::int64_t begin, std::int64_t end) { direct_forward(plan, images, begin, end); });
  return out;
}

/// Runs groups of taps and blocks of output channels in parallel. Each sum runs over all pixels in order.
template <class T>
void sum_direct(const DirectConv& conv, const DirectGradient<T>& gradient) {
  const std::vector<DirectPairs> groups = direct_pairs(conv);
  const std::int64_t blocks = (conv.out + kDirectPanel - 1) / kDirectPanel;
  tensor::parallel_for(0, static_cast<std::int64_t>(groups.size()) * blocks, 1,
                       [&](std::int64_t begin, std::int64_t end) {
                         while (begin < end) {
                           const std::int64_t first = begin % blocks;
                           const std::int64_t last = std::min(blocks, first + end - begin);
                           direct_weight_sums(conv, gradient, groups[static_cast<std::size_t>(begin / blocks)],
                                              first * kDirectPanel, std::min(conv.out, last * kDirectPanel));
                           begin += last - first;
                         }
                       });
}

}  // namespace

DirectConv direct_shape(const at::Tensor& input, const at::Tensor& weight, const ConvGeometry& geometry) {
  const auto axis = [&](std::int64_t dim) {
    const auto i = static_cast<std::size_t>(dim);
    return DirectAxis{.size = input.size(dim + 2),
                      .kernel = weight.size(dim + 2),
                      .stride = geometry.stride[i],
                      .padding = geometry.padding[i],
                      .dilation = geometry.dilation[i]};
  };
  return {.images = input.size(0), .rows = axis(0), .columns = axis(1), .in = weight.size(1), .out = weight.size(0)};
}

DirectWeights direct_weights(const at::Tensor& weight) {
  std::int64_t tap = 0;
  if (weight.size(2) > 1) tap = weight.stride(2);
  if (weight.size(3) > 1) tap = weight.stride(3);
  return {.data = weight.data_ptr<float>(), .out = weight.stride(0), .in = weight.stride(1), .tap = tap};
}

at::Tensor run_direct(const DirectPlan& plan, const at::Tensor& input, const DirectWeights& weights, const float* bias,
                      at::Tensor out) {
  if (input.scalar_type() == at::kFloat) return run_direct_in<float>(plan, input, weights, bias, std::move(out));
  return run_direct_in<std::uint16_t>(plan, input, weights, bias, std::move(out));
}

at::Tensor direct_weight_gradient(const DirectConv& conv, const at::Tensor& input, const at::Tensor& grad,
                                  const at::Tensor& weight) {
  at::Tensor gradient = at::empty_like(weight);
  const DirectWeights to = direct_weights(gradient);
  const std::int64_t all = conv.taps() * conv.in;
  const bool in_place =
      conv.in % kDirectLanes == 0 && to.in == 1 && to.out == all && (to.tap == conv.in || to.tap == 0);
  const std::int64_t row = in_place ? all : direct_columns(all);
  const at::Tensor sums =
      in_place ? gradient : at::empty({conv.out, row}, weight.options().memory_format(c10::nullopt));
  auto* data = sums.data_ptr<float>();
  if (grad.scalar_type() == at::kFloat) {
    sum_direct<float>(conv, {.x = memory_of<float>(input), .dy = memory_of<float>(grad), .sums = data, .row = row});
  } else {
    sum_direct<std::uint16_t>(
        conv, {.x = memory_of<std::uint16_t>(input), .dy = memory_of<std::uint16_t>(grad), .sums = data, .row = row});
  }
  if (in_place) return gradient;
  gradient.copy_(
      sums.narrow(1, 0, all).view({conv.out, weight.size(2), weight.size(3), conv.in}).permute({0, 3, 1, 2}));
  return gradient;
}

at::Tensor direct_bias_gradient(const at::Tensor& grad, std::int64_t channels, std::int64_t blocks) {
  const at::Tensor values = grad.scalar_type() == at::kFloat ? grad : grad.to(at::kFloat);
  const std::int64_t rows = values.numel() / channels;
  const std::int64_t block = (rows + blocks - 1) / blocks;
  detail::BlockSums sums(blocks, channels);
  detail::for_blocks(rows, block, [&](std::int64_t begin, std::int64_t end, std::int64_t index) {
    float* to = sums.of(index);
    const float* from = values.data_ptr<float>();
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t c = 0; c < channels; ++c) to[c] += from[row * channels + c];
    }
  });
  return sums.total();
}

}  // namespace lockstep::nn
