// SPDX-License-Identifier: Apache-2.0
// The fused AdamW pass over plain memory, on the widest instruction set of this processor.
#pragma once

#include <cstdint>

namespace lockstep::optim {

/// One step's constants, all of them already rounded as torch.optim.AdamW rounds them.
struct AdamWStep {
  float grad_scale;
  float decay;  ///< 1 - lr * weight_decay
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float root_correction2;  ///< sqrt(1 - beta2^step)
  float eps;
  float step_size;  ///< lr / (1 - beta1^step)
};

/// The memory of one parameter; the four arrays do not overlap.
struct AdamWMemory {
  float* parameter;
  const float* grad;
  float* exp_avg;
  float* exp_avg_sq;
};

/// Updates elements 0 .. count - 1. Each element's bits depend on its own four values only, never on its position.
void adamw_fused(const AdamWMemory& memory, std::int64_t count, const AdamWStep& step);

}  // namespace lockstep::optim
