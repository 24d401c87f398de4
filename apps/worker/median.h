// SPDX-License-Identifier: Apache-2.0
// The median of a list.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace lockstep::worker {

/// Returns the median of `values`, which must not be empty or contain NaN.
[[nodiscard]] inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Returns the median of those `values` that are finite; NaN if none is.
[[nodiscard]] inline double median_of_finite(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  return values.empty() ? std::numeric_limits<double>::quiet_NaN() : median(std::move(values));
}

}  // namespace lockstep::worker
