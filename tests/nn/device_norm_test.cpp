// SPDX-License-Identifier: Apache-2.0
// The GPU kernels of batch norm, run on the CPU, against libtorch's separate layers in double precision.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/pooling.h>

#include <limits>

#include "lockstep/nn/norm_act.h"
#include "lockstep/nn/optimize.h"
#include "nn/layer_testing.h"
#include "nn/norm/device_norm_act.h"
#include "support/kernel_emulator.h"
// After it.
#include "nn/norm/norm_act.cuh"
#pragma GCC diagnostic pop

namespace lockstep::nn {
namespace device_norm_test {

using Kernels = emulated::EmulatedKernels<NormActDevice>;

#define LOCKSTEP_OF(name) \
  { #name, device::name }
#define LOCKSTEP_OF_BOTH(name) LOCKSTEP_OF(name##_float32), LOCKSTEP_OF(name##_bfloat16)

Kernels make_kernels() {
  return Kernels({LOCKSTEP_OF(finish_moments_of_channels), LOCKSTEP_OF(finish_backward_of_channels),
                  LOCKSTEP_OF_BOTH(moments), LOCKSTEP_OF_BOTH(forward), LOCKSTEP_OF_BOTH(forward_pool),
                  LOCKSTEP_OF_BOTH(backward_sums), LOCKSTEP_OF_BOTH(backward_sums_pool), LOCKSTEP_OF_BOTH(backward),
                  LOCKSTEP_OF_BOTH(backward_pool)});
}

struct Case {
  std::int64_t images, channels, height, width;
  bool pool = false;
  bool residual = false;
  double mean = 0.3;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.images << "x" << c.channels << "x" << c.height << "x" << c.width << (c.pool ? ", pooled" : "")
       << (c.residual ? ", with a residual" : "") << ", mean " << c.mean;
}

at::Tensor channels_last(const at::Tensor& tensor) {
  return tensor.to(tensor.options(), false, true, at::MemoryFormat::ChannelsLast);
}

at::Tensor rounded(const at::Tensor& tensor) { return channels_last(tensor.to(at::kBFloat16).to(at::kFloat)); }

/// The inputs of a step, in float32 values that bfloat16 can also represent.
struct Data {
  explicit Data(const Case& c) {
    seed_all(11);
    const std::int64_t factor = c.pool ? 2 : 1;
    x = rounded(at::randn({c.images, c.channels, c.height, c.width}) * 2 + c.mean);
    grad = rounded(at::randn({c.images, c.channels, c.height / factor, c.width / factor}));
    if (c.residual) residual = rounded(at::randn_like(x));
    weight = at::randn({c.channels});
    bias = at::randn({c.channels}) * 0.5;
  }
  at::Tensor x, grad, residual, weight, bias;
};

/// The results of a step.
struct Outcome {
  at::Tensor out, x_grad, residual_grad, weight_grad, bias_grad, running_mean, running_var;
};

/// An autograd leaf with these values.
at::Tensor leaf(const at::Tensor& values, at::ScalarType type) {
  return values.defined() ? values.detach().to(values.options().dtype(type), false, true).requires_grad_() : values;
}

/// A layer's tensors during training.
struct Layer {
  Layer(const Case& c, const Data& data)
      : options(c.channels),
        weight(leaf(data.weight, at::kFloat)),
        bias(leaf(data.bias, at::kFloat)),
        mean(at::zeros({c.channels})),
        var(at::ones({c.channels})) {}
  [[nodiscard]] detail::BatchNormCall call() {
    return {.weight = weight,
            .bias = bias,
            .running_mean = mean,
            .running_var = var,
            .num_batches_tracked = batches,
            .options = options,
            .training = true};
  }

  torch::nn::BatchNormOptions options;
  at::Tensor weight, bias, mean, var;
  at::Tensor batches = at::zeros({}, at::kLong);
};

Outcome on_device(const Case& c, const Data& data, at::ScalarType type) {
  Kernels kernels = make_kernels();
  Layer layer(c, data);
  const at::Tensor x = leaf(data.x, type);
  const at::Tensor residual = leaf(data.residual, type);
  const at::Tensor out = detail::device_norm_act(kernels, x, layer.call(), {.pool = c.pool}, {.residual = residual});
  out.backward(data.grad.to(type));
  EXPECT_EQ(kernels.launched.size(), 6U) << "three each in forward and backward";
  EXPECT_TRUE(out.is_contiguous(at::MemoryFormat::ChannelsLast));
  return {out,        x.grad(), c.residual ? residual.grad() : at::Tensor(), layer.weight.grad(), layer.bias.grad(),
          layer.mean, layer.var};
}

Outcome exact(const Case& c, const Data& data) {
  const at::Tensor x = leaf(data.x, at::kDouble);
  const at::Tensor residual = leaf(data.residual, at::kDouble);
  const at::Tensor weight = leaf(data.weight, at::kDouble);
  const at::Tensor bias = leaf(data.bias, at::kDouble);
  const at::Tensor mean = at::zeros({c.channels}, at::kDouble);
  const at::Tensor var = at::ones({c.channels}, at::kDouble);
  at::Tensor out = at::batch_norm(x, weight, bias, mean, var, true, 0.1, 1e-5, false);
  if (c.residual) out = out + residual;
  out = at::relu(out);
  if (c.pool) out = at::max_pool2d(out, {2, 2});
  out.backward(data.grad.to(at::kDouble));
  return {out, x.grad(), c.residual ? residual.grad() : at::Tensor(), weight.grad(), bias.grad(), mean, var};
}

class DeviceNorm : public ::testing::TestWithParam<Case> {};

TEST_P(DeviceNorm, InFloat32EqualsTheSeparateLayersInDouble) {
  const Data data(GetParam());
  const Outcome found = on_device(GetParam(), data, at::kFloat);
  const Outcome expected = exact(GetParam(), data);
  const double far = GetParam().mean > 100 ? 5 : 1;  // y = a x + b subtracts large numbers
  EXPECT_LT(difference(found.out, expected.out), far * 3e-6);
  EXPECT_LT(difference(found.x_grad, expected.x_grad), 1e-5);
  EXPECT_LT(difference(found.weight_grad, expected.weight_grad), 1e-5);
  EXPECT_LT(difference(found.bias_grad, expected.bias_grad), 1e-5);
  EXPECT_LT(difference(found.running_mean, expected.running_mean), 1e-6);
  EXPECT_LT(difference(found.running_var, expected.running_var), far * 1e-6);
  if (GetParam().residual) {
    EXPECT_LT(difference(found.residual_grad, expected.residual_grad), 1e-6);
  }
}

TEST_P(DeviceNorm, InBfloat16OnlyTheResultsAreRounded) {
  const Data data(GetParam());
  const Outcome found = on_device(GetParam(), data, at::kBFloat16);
  const Outcome expected = exact(GetParam(), data);
  EXPECT_EQ(found.out.scalar_type(), at::kBFloat16);
  EXPECT_LT(difference(found.out, expected.out), 4e-3);
  EXPECT_LT(difference(found.x_grad, expected.x_grad), 4e-3);
  EXPECT_LT(difference(found.weight_grad, expected.weight_grad), 1e-5);
  EXPECT_LT(difference(found.bias_grad, expected.bias_grad), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Shapes, DeviceNorm,
                         ::testing::Values(Case{2, 8, 3, 5}, Case{3, 32, 6, 8, true}, Case{2, 64, 7, 9, true},
                                           Case{2, 24, 5, 4, true}, Case{1, 40, 3, 3}, Case{2, 16, 4, 4, false, true},
                                           Case{1, 2056, 2, 3}, Case{4, 32, 12, 12},
                                           Case{2, 16, 5, 5, false, false, 500}));

TEST(DeviceNormAct, HasTheSameBitsEachTime) {
  const Case c{4, 32, 21, 19, true};
  const Data data(c);
  const Outcome once = on_device(c, data, at::kBFloat16);
  const Outcome again = on_device(c, data, at::kBFloat16);
  EXPECT_TRUE(at::equal(once.out, again.out));
  EXPECT_TRUE(at::equal(once.x_grad, again.x_grad));
  EXPECT_TRUE(at::equal(once.weight_grad, again.weight_grad));
}

TEST(DeviceNormAct, WhatIsNoNumberIsNotHiddenAndSparesTheRunningStatistics) {
  const Case c{2, 16, 4, 4};
  Data data(c);
  data.x.select(0, 0).select(0, 3).select(0, 1).select(0, 1).fill_(std::numeric_limits<float>::quiet_NaN());
  const Outcome found = on_device(c, data, at::kFloat);
  EXPECT_TRUE(at::isnan(found.out.select(1, 3)).all().item<bool>());
  EXPECT_FALSE(at::isnan(found.out.select(1, 2)).any().item<bool>());
  EXPECT_EQ(found.running_mean[3].item<float>(), 0);
  EXPECT_NE(found.running_mean[2].item<float>(), 0);
}

TEST(DeviceNormAct, TheBiasThatTheInputLacksMovesTheRunningMeanAlone) {
  const Case c{2, 16, 4, 4};
  const Data data(c);
  Kernels kernels = make_kernels();
  Layer layer(c, data);
  const at::Tensor left_out = leaf(at::ones({c.channels}) * 5, at::kFloat);
  const at::Tensor x = leaf(data.x, at::kFloat);
  const at::Tensor out = detail::device_norm_act(kernels, x, layer.call(), {}, {.input_bias = left_out});
  out.backward(data.grad);
  const Outcome without = on_device(c, data, at::kFloat);
  EXPECT_TRUE(at::equal(out, without.out));
  EXPECT_TRUE(at::equal(x.grad(), without.x_grad));
  EXPECT_LT(difference(layer.mean, without.running_mean + 0.5), 1e-6) << "a tenth of 5";
  EXPECT_TRUE(at::equal(left_out.grad(), at::zeros({c.channels})));
}

TEST(ForwardLayers, AreThoseOfTheSequential) {
  seed_all(3);
  torch::nn::Sequential layers(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3).padding(1)),
                               torch::nn::BatchNorm2d(16), torch::nn::ReLU(), torch::nn::MaxPool2d(2),
                               torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 8, 1)), torch::nn::ReLU());
  const at::Tensor images = at::randn({2, 3, 8, 8});
  (void)optimize(*layers);
  EXPECT_TRUE(at::equal(forward_layers(*layers, images), layers->forward(images)));
  layers->eval();
  EXPECT_TRUE(at::equal(forward_layers(*layers, images), layers->forward(images)));
}

}  // namespace device_norm_test
}  // namespace lockstep::nn
