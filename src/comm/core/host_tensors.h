// SPDX-License-Identifier: Apache-2.0
// Turns tensors with any strides, on any device, into plain memory, the only kind that backends support. Also computes
// the shapes of gathered tensors.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/core/collective.h"

namespace lockstep::comm {

[[nodiscard]] inline bool is_plain(const at::Tensor& tensor) { return tensor.is_cpu() && tensor.is_contiguous(); }

/// Returns the tensor's contents in plain memory: the tensor itself, or a copy taken now.
[[nodiscard]] at::Tensor host_copy(const at::Tensor& tensor);

/// Returns a tensor in plain memory with the dtype of `like`; pinned if `like` is on a GPU.
[[nodiscard]] at::Tensor empty_host(at::IntArrayRef sizes, const at::Tensor& like);

/// Returns a function that copies `from`, plain memory, to `to`. Any thread may call it, in inference mode or not; the
/// copy is ordered on the stream that is current now.
[[nodiscard]] std::function<void()> write_back(const at::Tensor& from, const at::Tensor& to);

/// Runs a collective in a world of one; its tensors may be on any device.
void apply_alone(const Collective& collective, const at::Tensor& input, const at::Tensor& output);

/// Returns the sizes of `like` with `first` as the first dimension. If `replace` is true, it replaces the first
/// dimension of `like`; otherwise it is added before it.
[[nodiscard]] std::vector<std::int64_t> with_first(const at::Tensor& like, std::int64_t first, bool replace);

/// Returns the number of elements in one row, that is, at one index of the first dimension.
[[nodiscard]] std::int64_t row_elements(const at::Tensor& tensor);

/// Returns views of the consecutive parts of `whole`.
[[nodiscard]] std::vector<at::Tensor> cut(const at::Tensor& whole, const std::vector<std::int64_t>& rows);

}  // namespace lockstep::comm
