// SPDX-License-Identifier: Apache-2.0
// The autograd node shared by the losses that compute their gradient in forward.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep::nn::detail {

enum class Reduction { kNone, kMean, kSum };

template <class Chosen>
[[nodiscard]] Reduction reduction_of(const Chosen& chosen) {
  // The order of the alternatives in torch's options: none, mean, sum.
  constexpr Reduction kAll[] = {Reduction::kNone, Reduction::kMean, Reduction::kSum};
  return kAll[chosen.index()];
}

/// A loss and its gradient with respect to the logits, which backward multiplies by the incoming gradient.
struct ComputedLoss {
  at::Tensor loss;  ///< a scalar, or one loss for each element
  at::Tensor grad;  ///< gradient of the logits; undefined if not requested
  /// The dimension of the logits over which one element's loss is computed.
  std::int64_t class_dimension = 0;
};

/// Computes the loss and its gradient together. `logits`: as passed to the layer; `wants_grad`: backward may need the
/// gradient.
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

/// Runs the loss as an autograd node.
[[nodiscard]] at::Tensor run_loss(const at::Tensor& logits, const LossKernel& kernel);

/// Returns 16-bit logits as float32, others unchanged. libtorch's losses would round the loss to 16 bits, and some
/// reject float32 class weights.
[[nodiscard]] at::Tensor wide_logits(const at::Tensor& logits);
/// Returns a layer's weights for wide_logits(), even if the layer was converted to 16 bits.
[[nodiscard]] at::Tensor wide_weight(const at::Tensor& logits, const at::Tensor& weight);

/// Sums the losses in double and in order, and returns the sum times `scale` as float32.
[[nodiscard]] at::Tensor sum_losses(const at::Tensor& losses, double scale);

}  // namespace lockstep::nn::detail
