// SPDX-License-Identifier: Apache-2.0
#include "detection/model/lab.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "lockstep/nn/scale_shift.h"

namespace lockstep::detection {

void LabImpl::reset() {
  scale = register_parameter("scale", at::ones({1}));
  bias = register_parameter("bias", at::zeros({1}));
}

at::Tensor LabImpl::forward(const at::Tensor& input) { return nn::scale_shift(input, scale, bias); }

}  // namespace lockstep::detection
