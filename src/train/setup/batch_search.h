// SPDX-License-Identifier: Apache-2.0
// The search behind `batch_size: auto`, without the measurements.
#pragma once

#include <cstdint>
#include <functional>

namespace lockstep::train {

/// Returns true if a step with `batch` samples fits into memory. Smaller batches then fit too.
using Fits = std::function<bool(std::int64_t batch)>;

/// Returns the largest batch that fits and is at most `most`: a multiple of 8, `most` itself, or any number below 8; 0
/// if not even one sample fits. Starting at 8, it doubles the batch, then bisects between the largest batch that fits
/// and the smallest that does not.
///
/// Cost: at most 2 * log2(most / 8) + 2 calls to `fits`, with batches of at most twice the result (except the first,
///       8).
[[nodiscard]] std::int64_t largest_batch(std::int64_t most, const Fits& fits);

}  // namespace lockstep::train
