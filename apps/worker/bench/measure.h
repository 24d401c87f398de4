// SPDX-License-Identifier: Apache-2.0
// Timing for `lockstep bench`: the median of repeated runs of one action, after warm-up runs that do not count.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace lockstep::worker {

struct Repeats {
  std::int64_t warmup = 2;
  std::int64_t counted = 9;
};

/// Statistics of all counted runs, in seconds.
struct Timing {
  double median = 0;
  double p99 = 0;
};

/// Returns the median of values in any order; the list is not empty.
[[nodiscard]] inline double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Action>
[[nodiscard]] Timing time_runs(const Repeats& repeats, Action action) {
  for (std::int64_t i = 0; i < repeats.warmup; ++i) action();
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < repeats.counted; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    action();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds[seconds.size() * 99 / 100]};
}

/// Seconds of the median run of `action`.
template <class Action>
[[nodiscard]] double median_seconds(const Repeats& repeats, Action action) {
  return time_runs(repeats, action).median;
}

}  // namespace lockstep::worker
