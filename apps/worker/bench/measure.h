// SPDX-License-Identifier: Apache-2.0
// Timing for `lockstep bench`: the median of repeated runs of one action, without warm-up runs.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <vector>

namespace lockstep::worker {

struct Repeats {
  std::int64_t warmup = 2;
  std::int64_t counted = 9;
};

/// The statistics of all counted runs, in seconds.
struct Timing {
  double median = 0;
  double p99 = 0;
};

/// Returns the median of values in any order; the list must not be empty.
[[nodiscard]] inline double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The median of values, and its 95 % confidence interval (from order statistics; no distribution is assumed).
struct MedianRange {
  double median = 0;
  double low = 0;
  double high = 0;
};

/// Returns the range of a non-empty list.
[[nodiscard]] inline MedianRange median_range(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const double n = static_cast<double>(values.size());
  const double half = 0.98 * std::sqrt(n);  // 1.96 standard deviations of a binomial with p = 1/2
  const auto at = [&](double rank) { return values[static_cast<std::size_t>(std::clamp(rank, 0.0, n - 1))]; };
  return {values[values.size() / 2], at(std::floor(n / 2 - half)), at(std::ceil(n / 2 + half))};
}

/// Returns the time of one run, in seconds.
template <class Action>
[[nodiscard]] double seconds_of(Action action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

template <class Action>
[[nodiscard]] Timing time_runs(const Repeats& repeats, Action action) {
  for (std::int64_t i = 0; i < repeats.warmup; ++i) action();
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < repeats.counted; ++i) seconds.push_back(seconds_of(action));
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds[seconds.size() * 99 / 100]};
}

/// Returns the median time of a run of `action`, in seconds.
template <class Action>
[[nodiscard]] double median_seconds(const Repeats& repeats, Action action) {
  return time_runs(repeats, action).median;
}

}  // namespace lockstep::worker
