// SPDX-License-Identifier: Apache-2.0
// Dropout and ReLU alone: one pass over memory each way, and as little kept as can be. Chains of layers are better
// fused: nn/norm_act.h, nn/linear_relu.h.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <ATen/core/Tensor.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <ostream>

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// torch::nn::Dropout, but with numbers of a generator of its own (Philox), seeded by libtorch's.
///
/// On a CPU with float32 or bfloat16, contiguous or channels-last, it is a kernel; all else is libtorch's. Evaluation
/// is the identity.
///
/// Cost:   a bit an element is kept for backward, and nothing else. The shares are steps of 1 / 65536.
/// Throws: UsageError for a probability outside of [0, 1], or for a second derivative through the kernel.
/// Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011.
class DropoutImpl final : public torch::nn::Cloneable<DropoutImpl> {
 public:
  /// `p`: the probability of zero.
  explicit DropoutImpl(double p = 0.5);

  void reset() override {}
  at::Tensor forward(const at::Tensor& input);
  [[nodiscard]] double p() const noexcept { return p_; }
  void pretty_print(std::ostream& stream) const override;

 private:
  double p_;
};
TORCH_MODULE(Dropout);

/// torch::nn::ReLU that keeps a bit an element for backward, and not its output. What is no number stays none.
///
/// Throws: UsageError for a second derivative through the kernel.
class ReLUImpl final : public torch::nn::Cloneable<ReLUImpl> {
 public:
  void reset() override {}
  at::Tensor forward(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;
};
TORCH_MODULE(ReLU);

}  // namespace lockstep::nn

#pragma GCC visibility pop
