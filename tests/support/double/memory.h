// SPDX-License-Identifier: Apache-2.0
// The memory of the fake GPUs is the host's: a GPU tensor has a CPU twin over the same bytes.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "support/double/stream_handle.h"

namespace lockstep::testing::make_believe {

/// Returns the CPU twin of a GPU tensor; a CPU tensor is its own twin.
[[nodiscard]] at::Tensor on_host(const at::Tensor& value);

/// Returns the twin without the GPU's allocation: it keeps the bytes, but to the ledger they have been given back.
[[nodiscard]] at::Tensor without_gpu(const at::Tensor& twin);

/// The bytes that a tensor spans.
[[nodiscard]] Access span_of(const at::Tensor& tensor, bool writes);

/// The tensors of one operator call: GPU tensors as CPU tensors, and back.
class Twins {
 public:
  /// Returns the twin. The same tensor has the same twin, so that views stay views and in-place results stay in place.
  at::Tensor there(const at::Tensor& value);
  at::Tensor back(const at::Tensor& value, const c10::Device& gpu, int stream);
  [[nodiscard]] bool is_twin(const at::Tensor& value) const;
  /// Copies the new sizes of tensors that an operator resized.
  void settle(int stream);

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;  ///< GPU tensor, CPU tensor
};

}  // namespace lockstep::testing::make_believe
