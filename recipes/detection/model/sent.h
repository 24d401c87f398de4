// SPDX-License-Identifier: Apache-2.0
// Sends numbers of the host to the device that computes with them.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::detection {

/// Returns the tensors of `host` on `device`, in the same order. All travel in one copy from page-locked memory, and
/// neither side waits for it. If `device` is a CPU, the tensors are returned unchanged. Shapes: contiguous CPU tensors;
/// the returned device tensors share memory.
[[nodiscard]] std::vector<at::Tensor> sent(const std::vector<at::Tensor>& host, const at::Device& device);

}  // namespace lockstep::detection
