// SPDX-License-Identifier: Apache-2.0
// Unscales plain memory and checks it for inf and NaN, with the widest instruction set of this processor.
#pragma once

#include <cstdint>

namespace lockstep::optim {

/// Multiplies elements 0 .. count - 1 by `factor`. Returns false if an element was inf or NaN before.
[[nodiscard]] bool unscale_finite(float* values, std::int64_t count, float factor);

}  // namespace lockstep::optim
