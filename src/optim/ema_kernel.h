// SPDX-License-Identifier: Apache-2.0
// The moving average over plain memory, with the widest instruction set of this processor.
#pragma once

#include <cstdint>

namespace lockstep::optim {

/// Sets average = decay * average + share * value, for elements 0 .. count - 1. Each product and the sum are rounded.
void ema_update(float* average, const float* values, std::int64_t count, float decay, float share);

}  // namespace lockstep::optim
