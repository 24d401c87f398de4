// SPDX-License-Identifier: Apache-2.0
// Memory that a step may write: a data set often returns views of its own tensors.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::data {

/// Makes `data` contiguous, in memory that no other tensor uses. Copies it only if it is not yet so; a batch's row
/// keeps its memory. Limits: memory that from_blob() wrapped looks like a row, so it is written if it belongs to the
/// data set.
inline void make_own(at::Tensor& data) {
  const bool shared = data.use_count() > 1 || data.storage().use_count() > 1;
  data = shared ? data.clone(at::MemoryFormat::Contiguous) : data.contiguous();
}

}  // namespace lockstep::data
