// SPDX-License-Identifier: Apache-2.0
// What the losses that compute their gradient in the forward share: their node of autograd.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep::nn::detail {

enum class Reduction { kNone, kMean, kSum };

template <class Chosen>
[[nodiscard]] Reduction reduction_of(const Chosen& chosen) {
  // The alternatives of torch's options: none, mean, sum.
  constexpr Reduction kAll[] = {Reduction::kNone, Reduction::kMean, Reduction::kSum};
  return kAll[chosen.index()];
}

/// A loss and its gradient by the logits, which backward multiplies by the one that comes in.
struct ComputedLoss {
  at::Tensor loss;  ///< a number, or one for each element
  at::Tensor grad;  ///< undefined where none is wanted
  /// The dimension of the logits that one element's loss is over.
  std::int64_t class_dimension = 0;
};

/// Computes both at once. `logits` as they came, `wants_grad`: whether a gradient will be asked for.
class LossKernel {
 public:
  virtual ~LossKernel() = default;
  [[nodiscard]] virtual ComputedLoss compute(const at::Tensor& logits, bool wants_grad) const = 0;
  [[nodiscard]] virtual const char* name() const = 0;  ///< for messages; lives as long as the program

 protected:
  LossKernel() = default;
  LossKernel(const LossKernel&) = default;
  LossKernel(LossKernel&&) = default;
  LossKernel& operator=(const LossKernel&) = default;
  LossKernel& operator=(LossKernel&&) = default;
};

/// As a node of autograd.
[[nodiscard]] at::Tensor run_loss(const at::Tensor& logits, const LossKernel& kernel);

/// Logits of 16 bits as float32, others as they are. libtorch's losses would round the loss to their 16 bits, and some
/// refuse class weights of float32.
[[nodiscard]] at::Tensor wide_logits(const at::Tensor& logits);
/// A layer's weights for wide_logits(): also a layer that was turned into 16 bits has them.
[[nodiscard]] at::Tensor wide_weight(const at::Tensor& logits, const at::Tensor& weight);

/// Sum in double and in order, times `scale`: float32.
[[nodiscard]] at::Tensor sum_losses(const at::Tensor& losses, double scale);

}  // namespace lockstep::nn::detail
