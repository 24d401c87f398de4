// SPDX-License-Identifier: Apache-2.0
// Single Dropout and ReLU layers. Each direction is one pass over memory, and backward keeps as little as possible.
// Fuse chains of layers instead: nn/norm_act.h, nn/linear_relu.h.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <ostream>

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// torch::nn::Dropout with its own random generator (Philox), seeded from libtorch's.
///
/// On a CPU with float32 or bfloat16, contiguous or channels-last, it uses a custom kernel; otherwise it falls back to
/// libtorch's layer. In evaluation it is the identity.
///
/// Cost:   backward keeps one bit for each element. The probability is rounded to a multiple of 1 / 65536.
/// Throws: UsageError for a probability outside [0, 1], or for a second derivative through the kernel.
/// Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011.
class DropoutImpl final : public torch::nn::Cloneable<DropoutImpl> {
 public:
  /// `p` is the probability that a value becomes zero.
  explicit DropoutImpl(double p = 0.5);

  void reset() override {}
  /// In training, returns the input with some values dropped and the others scaled up; in evaluation, the input.
  at::Tensor forward(const at::Tensor& input);
  /// Returns the probability that a value is dropped.
  [[nodiscard]] double p() const noexcept { return p_; }
  void pretty_print(std::ostream& stream) const override;

 private:
  double p_;
};
TORCH_MODULE(Dropout);

/// torch::nn::ReLU that saves one bit per element for backward instead of its output. NaN stays NaN.
///
/// Throws: UsageError for a second derivative through the kernel.
class ReLUImpl final : public torch::nn::Cloneable<ReLUImpl> {
 public:
  void reset() override {}
  /// Returns max(input, 0).
  at::Tensor forward(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;
};
TORCH_MODULE(ReLU);

}  // namespace lockstep::nn

#pragma GCC visibility pop
