// SPDX-License-Identifier: Apache-2.0
// Numbers of the host on their way to the device that computes with them.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::detection {

/// Returns `host` on `device`, in the same order. All travel in one copy from page-locked memory, for which neither
/// side waits. On a CPU the tensors are returned as they are. Shapes: contiguous tensors of the CPU; those of a device
/// share memory.
[[nodiscard]] std::vector<at::Tensor> sent(const std::vector<at::Tensor>& host, const at::Device& device);

}  // namespace lockstep::detection
