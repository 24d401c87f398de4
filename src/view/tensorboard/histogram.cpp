// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lockstep/view/event_file.h"

namespace lockstep::view {
namespace {

constexpr double kSmallest = 1e-12;
constexpr double kGrowth = 1.1;
constexpr int kSide = 776;  // limits on one side of 0; the last is above 1e20

const std::array<double, kSide>& limits_of_a_side() {
  static const auto kLimits = [] {
    std::array<double, kSide> limits{};
    double limit = kSmallest;
    for (double& each : limits) {
      each = limit;
      limit *= kGrowth;
    }
    limits.back() = std::numeric_limits<double>::max();
    return limits;
  }();
  return kLimits;
}

/// Returns the first limit of a side that is at least `magnitude`, which is above 0.
int at_least(double magnitude) {
  static const double kScale = 1 / std::log2(kGrowth);
  static const double kOffset = std::log2(kSmallest);
  const auto& limits = limits_of_a_side();
  // The logarithm may be off by rounding, so the neighbouring limits are compared.
  const double guess = (static_cast<double>(std::log2(static_cast<float>(magnitude))) - kOffset) * kScale;
  int i = std::clamp(static_cast<int>(guess), 0, kSide - 1);
  while (i > 0 && limits[static_cast<std::size_t>(i - 1)] >= magnitude) --i;
  while (limits[static_cast<std::size_t>(i)] < magnitude) ++i;
  return i;
}

// Buckets: kSide below 0, from the largest magnitude to the smallest; then one around 0, then kSide above it.
constexpr std::size_t kBuckets = 2 * kSide + 1;

/// Returns the bucket of a value. Bucket i ends at limit i, inclusive. Above 0 its limit is the first limit that is at
/// least the value; below 0 it is the last limit whose magnitude is at most the value's.
std::size_t bucket_of(double value) {
  constexpr auto kZero = static_cast<std::size_t>(kSide);
  if (value == 0) return kZero;
  const int side = at_least(std::abs(value));
  if (value > 0) return kZero + 1 + static_cast<std::size_t>(side);
  const bool is_limit = limits_of_a_side()[static_cast<std::size_t>(side)] == -value;
  return kZero - static_cast<std::size_t>(side) - (is_limit ? 1 : 0);
}

double limit_of(std::size_t bucket) {
  const auto& limits = limits_of_a_side();
  if (bucket < kSide) return -limits[kSide - 1 - bucket];
  return bucket == kSide ? 0 : limits[bucket - kSide - 1];
}

}  // namespace

Histogram histogram_of(const float* values, std::size_t size) {
  std::array<double, kBuckets> counts{};
  Histogram result;
  for (std::size_t i = 0; i < size; ++i) {
    const double value = values[i];
    if (!std::isfinite(value)) continue;
    result.min = result.count == 0 ? value : std::min(result.min, value);
    result.max = result.count == 0 ? value : std::max(result.max, value);
    result.count += 1;
    result.sum += value;
    result.sum_squares += value * value;
    counts[bucket_of(value)] += 1;
  }
  // Readers draw a bucket starting at the previous bucket's limit, so an empty bucket precedes each group of full
  // buckets.
  for (std::size_t i = 0; i < kBuckets; ++i) {
    const bool is_followed = i + 1 < kBuckets && counts[i + 1] > 0;
    if (counts[i] == 0 && !is_followed) continue;
    result.limits.push_back(limit_of(i));
    result.counts.push_back(counts[i]);
  }
  if (result.limits.empty()) {  // TensorBoard does not accept a histogram without buckets
    result.limits.push_back(0);
    result.counts.push_back(0);
  }
  return result;
}

}  // namespace lockstep::view
