// SPDX-License-Identifier: Apache-2.0
// The search of `batch_size: auto`, apart from its measurements.
#pragma once

#include <cstdint>
#include <functional>

namespace lockstep::train {

/// Returns true if a step with so many samples fits into memory. Then every smaller one fits too.
using Fits = std::function<bool(std::int64_t batch)>;

/// Returns the largest batch that fits and is at most `most`: a multiple of 8, `most` itself, or any number below 8; 0
/// if not even one sample fits. It doubles from 8 on, then halves the range between the last that fits and the first
/// that does not.
///
/// Cost: at most 2 * log2(most / 8) + 2 calls of `fits`; none is larger than twice the result (but for the first, of
///       8).
[[nodiscard]] std::int64_t largest_batch(std::int64_t most, const Fits& fits);

}  // namespace lockstep::train
