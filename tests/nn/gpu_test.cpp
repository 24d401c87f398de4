// SPDX-License-Identifier: Apache-2.0
// The fused layers on a real GPU, against libtorch's separate layers in double precision on the CPU.
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/function.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/pooling.h>

#include "lockstep/nn/norm_act.h"
#include "lockstep/nn/optimize.h"
#include "nn/layer_testing.h"
#include "support/gpu.h"

namespace lockstep::nn {
namespace gpu_test {

struct Case {
  std::int64_t images, channels, height, width;
  bool pool = false;
  bool residual = false;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.images << "x" << c.channels << "x" << c.height << "x" << c.width << (c.pool ? ", pooled" : "")
       << (c.residual ? ", with a residual" : "");
}

at::Tensor rounded(const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(at::kBFloat16).to(at::kFloat);
  return values.to(values.options(), false, true, at::MemoryFormat::ChannelsLast);
}

struct Outcome {
  at::Tensor out, x_grad, residual_grad, weight_grad, bias_grad, running_mean, running_var;
  std::string node;
};

/// One step of the layer, with the same values for every device and type.
Outcome step(const Case& c, const at::TensorOptions& where) {
  seed_all(11);
  const std::int64_t factor = c.pool ? 2 : 1;
  const at::Tensor x =
      rounded(at::randn({c.images, c.channels, c.height, c.width}) * 2 + 0.3).to(where).requires_grad_();
  const at::Tensor grad = rounded(at::randn({c.images, c.channels, c.height / factor, c.width / factor})).to(where);
  const at::Tensor added = rounded(at::randn(x.sizes())).to(where).requires_grad_();
  BatchNormReLU2d layer{torch::nn::BatchNormOptions(c.channels), BatchNormReLUOptions{.pool = c.pool}};
  {
    const at::NoGradGuard no_grad;
    layer->weight.copy_(at::randn({c.channels}));
    layer->bias.copy_(at::randn({c.channels}) * 0.5);
  }
  layer->to(where.device());
  if (where.dtype() == at::kDouble) layer->to(at::kDouble);
  const at::Tensor out = c.residual ? layer->forward_with_residual(x, added) : layer->forward(x);
  out.backward(grad);
  const auto home = [](const at::Tensor& tensor) { return tensor.detach().cpu(); };
  return {home(out),
          home(x.grad()),
          c.residual ? home(added.grad()) : at::Tensor(),
          home(layer->weight.grad()),
          home(layer->bias.grad()),
          home(layer->running_mean),
          home(layer->running_var),
          out.grad_fn()->name()};
}

class NormOnAGpu : public ::testing::TestWithParam<Case> {};

TEST_P(NormOnAGpu, EqualsTheSeparateLayersInDoubleToTheRounding) {
  LOCKSTEP_NEEDS_GPU();
  const Outcome expected = step(GetParam(), at::TensorOptions(at::kDouble));
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const double tolerance = type == at::kFloat ? 2e-5 : 4e-3;
    const Outcome found = step(GetParam(), at::TensorOptions(type).device(at::kCUDA));
    EXPECT_THAT(found.node, ::testing::HasSubstr("DeviceNormAct"));
    EXPECT_LT(difference(found.out, expected.out), tolerance) << type;
    EXPECT_LT(difference(found.x_grad, expected.x_grad), tolerance) << type;
    EXPECT_LT(difference(found.weight_grad, expected.weight_grad), 2e-5) << type;
    EXPECT_LT(difference(found.bias_grad, expected.bias_grad), 2e-5) << type;
    EXPECT_LT(difference(found.running_mean, expected.running_mean), 2e-6) << type;
    EXPECT_LT(difference(found.running_var, expected.running_var), 2e-6) << type;
    if (GetParam().residual) EXPECT_LT(difference(found.residual_grad, expected.residual_grad), tolerance) << type;
    const Outcome again = step(GetParam(), at::TensorOptions(type).device(at::kCUDA));
    EXPECT_TRUE(at::equal(found.x_grad, again.x_grad)) << "the same bits each time";
    EXPECT_TRUE(at::equal(found.weight_grad, again.weight_grad)) << "the same bits each time";
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, NormOnAGpu,
                         ::testing::Values(Case{2, 8, 3, 5}, Case{64, 32, 60, 160, true}, Case{32, 128, 15, 40, true},
                                           Case{16, 256, 14, 14, false, true}, Case{4, 2056, 7, 7},
                                           Case{1, 24, 5, 4, true}));

/// Convolution, batch norm, ReLU and pooling, built from libtorch's layers.
torch::nn::Sequential chain() {
  seed_all(3);
  return torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 16, 3).padding(1)),
                               torch::nn::BatchNorm2d(16), torch::nn::ReLU(), torch::nn::MaxPool2d(2));
}

TEST(ForwardLayersOnAGpu, LeaveOutABiasThatBatchNormTakesAway) {
  LOCKSTEP_NEEDS_GPU();
  const at::Tensor images = rounded(at::randn({16, 8, 20, 20}));
  torch::nn::Sequential plain = chain();
  plain->to(at::kDouble);
  const at::Tensor expected = plain->forward(images.to(at::kDouble));
  expected.square().sum().backward();
  torch::nn::Sequential ours = chain();
  (void)optimize(*ours);
  ours->to(at::kCUDA);
  const at::Tensor found = forward_layers(*ours, images.to(at::kCUDA));
  found.square().sum().backward();
  EXPECT_LT(difference(found.cpu(), expected), 1e-3) << "cuDNN may multiply in TF32";
  const auto theirs = plain->named_parameters();
  for (const auto& parameter : ours->named_parameters()) {
    ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
    if (parameter.key() == "0.bias") {
      EXPECT_EQ(parameter.value().grad().abs().max().item<float>(), 0);
    } else {
      EXPECT_LT(difference(parameter.value().grad().cpu(), theirs[parameter.key()].grad()), 5e-3) << parameter.key();
    }
  }
  const auto buffers = plain->named_buffers();
  for (const auto& buffer : ours->named_buffers()) {
    EXPECT_LT(difference(buffer.value().cpu(), buffers[buffer.key()]), 1e-3) << buffer.key();
  }
}

}  // namespace gpu_test
}  // namespace lockstep::nn
