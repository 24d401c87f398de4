// SPDX-License-Identifier: Apache-2.0
// The autograd node shared by the losses that compute their gradient in the forward.
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

/// A loss and its gradient by the logits; backward multiplies it by the incoming gradient.
struct ComputedLoss {
  at::Tensor loss;  ///< a number, or one for each element
  at::Tensor grad;  ///< undefined if none is wanted
  /// The dimension of the logits over which one element's loss is computed.
  std::int64_t class_dimension = 0;
};

/// Computes both at once. `logits`: as given to the layer; `wants_grad`: a gradient may be asked for later.
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

/// Runs the loss as a node of autograd.
[[nodiscard]] at::Tensor run_loss(const at::Tensor& logits, const LossKernel& kernel);

/// Returns logits of 16 bits as float32, others unchanged. libtorch's losses would round the loss to 16 bits, and some
/// refuse class weights of float32.
[[nodiscard]] at::Tensor wide_logits(const at::Tensor& logits);
/// Returns a layer's weights for wide_logits(), even if the layer was converted to 16 bits.
[[nodiscard]] at::Tensor wide_weight(const at::Tensor& logits, const at::Tensor& weight);

/// Sums in double and in order, times `scale`: float32.
[[nodiscard]] at::Tensor sum_losses(const at::Tensor& losses, double scale);

}  // namespace lockstep::nn::detail
