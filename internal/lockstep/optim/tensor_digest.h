// SPDX-License-Identifier: Apache-2.0
// The digest of named tensors (docs/formats/digests.md), to compare them over ranks.
#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/tensor/named_tensors.h"

#pragma GCC visibility push(default)

namespace lockstep::optim {

/// Returns the digest of one tensor of float32 or float64, which depends on its name; 0 if it is undefined or empty.
/// Blocks: if it is on a GPU, until that has computed it.
[[nodiscard]] std::uint64_t digest_of(const at::Tensor& tensor, std::string_view name);

/// Returns the sum of the digests of `tensors`.
[[nodiscard]] std::uint64_t digest_of(const NamedTensors& tensors);

}  // namespace lockstep::optim

#pragma GCC visibility pop
