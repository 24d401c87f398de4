// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/scale_shift.h"

#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "lockstep/base/error.h"
#include "nn/layer_testing.h"

namespace lockstep::nn {
namespace scale_shift_test {

/// The result, and the gradients of input, scale and shift.
std::vector<at::Tensor> pass_of(at::IntArrayRef shape, at::ScalarType type, at::ScalarType numbers) {
  seed_all(2);
  at::Tensor x = at::randn(shape).to(at::kBFloat16).to(type);
  if (x.dim() == 4) x = x.contiguous(at::MemoryFormat::ChannelsLast);
  x.requires_grad_();
  const at::Tensor scale = at::full({1}, 1.25, numbers).requires_grad_();
  const at::Tensor shift = at::full({1}, -0.5, numbers).requires_grad_();
  const at::Tensor out = scale_shift(x, scale, shift);
  EXPECT_EQ(out.scalar_type(), type);
  out.backward(at::randn(shape).to(at::kBFloat16).to(type));
  return {out.detach(), x.grad(), scale.grad(), shift.grad()};
}

TEST(ScaleShift, ForwardAndGradientsAreLibtorchsInDouble) {
  const std::vector<std::vector<std::int64_t>> shapes = {{2, 24, 31, 17}, {5}, {3, 16, 80, 80}};
  for (const auto& shape : shapes) {
    const auto exact = pass_of(shape, at::kDouble, at::kDouble);
    const auto found = pass_of(shape, at::kFloat, at::kFloat);
    const auto rounded = pass_of(shape, at::kBFloat16, at::kFloat);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      EXPECT_LT(difference(found[i], exact[i]), 1e-5) << i;
      EXPECT_LT(difference(rounded[i], exact[i]), i < 2 ? 1.0 / 256 : 1e-5) << i;
    }
  }
}

TEST(ScaleShift, HasTheSameBitsOnAnyNumberOfThreads) {
  EXPECT_TRUE(same_on_any_threads([] { return pass_of({3, 16, 80, 80}, at::kFloat, at::kFloat); }));
}

TEST(ScaleShift, ASecondDerivativeIsRefused) {
  const at::Tensor x = at::randn({4, 8}).requires_grad_();
  const at::Tensor out = scale_shift(x, at::full({1}, 2.0F), at::full({1}, 1.0F)).sum();
  EXPECT_THROW((void)torch::autograd::grad({out}, {x}, {}, true, true), UsageError);
}

}  // namespace scale_shift_test
}  // namespace lockstep::nn
