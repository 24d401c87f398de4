// SPDX-License-Identifier: Apache-2.0
// Converts batches of images [N, 3, H, W] between 0..1 and the normalised values that networks expect.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/TensorOperators.h>

#include "lockstep/data/augment/to_tensor.h"

namespace lockstep {

/// ImageNet's means and standard deviations.
class ImageNetValues {
 public:
  /// Converts values in 0..1 to values around 0.
  [[nodiscard]] at::Tensor normalized(const at::Tensor& pictures) const { return (pictures - mean_) / deviation_; }
  /// Converts values around 0 to values in 0..1.
  [[nodiscard]] at::Tensor restored(const at::Tensor& pictures) const {
    return pictures * deviation_.to(pictures.device()) + mean_.to(pictures.device());
  }

 private:
  static at::Tensor by_channel(const std::array<float, 3>& values) {
    return at::tensor(at::ArrayRef<float>(values)).view({1, 3, 1, 1});
  }

  at::Tensor mean_ = by_channel(Normalize{}.mean);
  at::Tensor deviation_ = by_channel(Normalize{}.deviation);
};

}  // namespace lockstep
