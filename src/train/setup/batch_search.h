// SPDX-License-Identifier: Apache-2.0
// The search of `batch_size: auto`, apart from what it measures.
#pragma once

#include <cstdint>
#include <functional>

namespace lockstep::train {

/// Whether a step with so many samples fits into memory. Where one does, so does every smaller one.
using Fits = std::function<bool(std::int64_t batch)>;

/// The largest batch that fits and is no larger than `most`: a multiple of 8, `most` itself, or below 8 any number. 0
/// where not even one sample fits. Doubles from 8 on, then halves what is left between the last that fits and the
/// first that does not.
///
/// Cost: at most 2 * log2(most / 8) + 2 calls of `fits`; none is larger than twice what fits (but for the first, of 8).
[[nodiscard]] std::int64_t largest_batch(std::int64_t most, const Fits& fits);

}  // namespace lockstep::train
