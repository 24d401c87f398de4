// SPDX-License-Identifier: Apache-2.0
// Sums and other reductions on NCCL's types.
#pragma once

#include <cstddef>

#include "lockstep/base/nccl_library.h"

namespace lockstep::testing::nccl_double {

[[nodiscard]] std::size_t size_of(nccl::DataType type);

/// Reduces `other` into `sum`, element by element.
void fold(std::byte* sum, const std::byte* other, std::size_t count, nccl::DataType type, nccl::RedOp op);

}  // namespace lockstep::testing::nccl_double
