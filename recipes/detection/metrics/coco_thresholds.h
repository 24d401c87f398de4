// SPDX-License-Identifier: Apache-2.0
// What the two parts of COCO's evaluation share.
#pragma once

#include <array>

#include "detection/metrics/coco_eval.h"

namespace lockstep::detection {

/// numpy.linspace(0.5, 0.95, 10), with its bits.
[[nodiscard]] const std::array<double, kThresholds>& overlap_thresholds() noexcept;

/// Returns the counts of one class in one image, at threshold `at`.
[[nodiscard]] HitCounts confident_counts(const ImageResult::OfClass& of, std::int64_t at);

[[nodiscard]] HitCounts operator+(const HitCounts& a, const HitCounts& b) noexcept;

}  // namespace lockstep::detection
