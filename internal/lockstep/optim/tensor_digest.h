// SPDX-License-Identifier: Apache-2.0
// Digests of named tensors (docs/formats/digests.md), to compare the tensors across ranks.
#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/tensor/named_tensors.h"

#pragma GCC visibility push(default)

namespace lockstep::optim {

/// Returns the digest of one float32 or float64 tensor and its name; 0 if the tensor is undefined or empty. Blocks: for
/// a tensor on a GPU, until the GPU has computed the digest.
[[nodiscard]] std::uint64_t digest_of(const at::Tensor& tensor, std::string_view name);

/// Returns the sum of the digests of `tensors`.
[[nodiscard]] std::uint64_t digest_of(const NamedTensors& tensors);

}  // namespace lockstep::optim

#pragma GCC visibility pop
