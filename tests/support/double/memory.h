// SPDX-License-Identifier: Apache-2.0
// The memory of the make-believe GPUs is the host's: a tensor of a GPU has a twin of the CPU over the same bytes.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "support/double/stream_handle.h"

namespace lockstep::testing::make_believe {

/// Returns the CPU's twin of a GPU's tensor; a tensor of the CPU is its own.
[[nodiscard]] at::Tensor on_host(const at::Tensor& value);

/// Returns the same twin. It keeps the bytes, and not what the GPU has of them: the ledger notices that these are given
/// back.
[[nodiscard]] at::Tensor without_gpu(const at::Tensor& twin);

/// Which bytes a tensor spans.
[[nodiscard]] Access span_of(const at::Tensor& tensor, bool writes);

/// The tensors of one call of an operator: those of a GPU as the CPU's, and back.
class Twins {
 public:
  /// The same tensor has the same twin, so that views and what is written in place come back as such.
  at::Tensor there(const at::Tensor& value);
  at::Tensor back(const at::Tensor& value, const c10::Device& gpu, int stream);
  [[nodiscard]] bool is_twin(const at::Tensor& value) const;
  /// Takes over what an operator has resized.
  void settle(int stream);

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;  ///< of the GPU, of the CPU
};

}  // namespace lockstep::testing::make_believe
