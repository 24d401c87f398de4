// SPDX-License-Identifier: Apache-2.0
// Unscales plain memory and looks for inf and NaN, on the widest instruction set of this processor.
#pragma once

#include <cstdint>

namespace lockstep::optim {

/// Multiplies elements 0 .. count - 1 with `factor`; false if one of them was inf or NaN before.
[[nodiscard]] bool unscale_finite(float* values, std::int64_t count, float factor);

}  // namespace lockstep::optim
