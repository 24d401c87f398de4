// SPDX-License-Identifier: Apache-2.0
// The median of a list.
#pragma once

#include <algorithm>
#include <vector>

namespace lockstep::worker {

/// Returns the median of `values`, which must not be empty.
[[nodiscard]] inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace lockstep::worker
