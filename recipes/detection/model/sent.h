// SPDX-License-Identifier: Apache-2.0
// Copies tensors from the host to the device.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::detection {

/// Returns the tensors of `host` on `device`, in the same order. All are sent in one asynchronous copy from pinned
/// memory. If `device` is a CPU, the tensors are returned unchanged. Shapes: contiguous CPU tensors; the returned
/// device tensors share memory.
[[nodiscard]] std::vector<at::Tensor> sent(const std::vector<at::Tensor>& host, const at::Device& device);

}  // namespace lockstep::detection
