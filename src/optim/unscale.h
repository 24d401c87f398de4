// SPDX-License-Identifier: Apache-2.0
// The two tensor operations of GradScaler: libtorch's on CUDA; it has none for the CPU before 2.3, so ours there.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep::optim {

/// Multiplies `gradients` in place with `inv_scale` (float32, no dimension) and sets `found_inf` (float32, no
/// dimension) to 1 where an element was inf or NaN before. All of them lie on `found_inf`'s device. Cost: one pass, 8
/// bytes of memory traffic for an element of float32.
void unscale_and_check(const std::vector<at::Tensor>& gradients, const at::Tensor& inv_scale,
                       const at::Tensor& found_inf);

struct ScaleRule {
  double growth_factor;
  double backoff_factor;
  std::int64_t growth_interval;
};

/// The next `scale` (float32) and `growth_tracker` (int32), in place.
void update_scale(const at::Tensor& scale, const at::Tensor& growth_tracker, const at::Tensor& found_inf,
                  const ScaleRule& rule);

}  // namespace lockstep::optim
