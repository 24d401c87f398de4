// SPDX-License-Identifier: Apache-2.0
#include "train/setup/batch_search.h"

#include <algorithm>

namespace lockstep::train {
namespace {

// The first batch tried. The result is a multiple of it, because tensor cores work in multiples of 8.
constexpr std::int64_t kGrain = 8;

/// Bisects between `fitting`, which fits (0 if no batch is known to fit), and `too_large`, which does not.
std::int64_t bisect(std::int64_t fitting, std::int64_t too_large, const Fits& fits) {
  const std::int64_t grain = fitting >= kGrain ? kGrain : 1;
  while (too_large - fitting > grain) {
    const std::int64_t half = (too_large - fitting) / 2 / grain * grain;
    const std::int64_t middle = fitting + std::max(half, grain);
    (fits(middle) ? fitting : too_large) = middle;
  }
  return fitting;
}

}  // namespace

std::int64_t largest_batch(std::int64_t most, const Fits& fits) {
  std::int64_t fitting = 0;
  std::int64_t next = std::min(kGrain, most);
  while (fitting < most) {
    if (!fits(next)) return bisect(fitting, next, fits);
    fitting = next;
    next = std::min(fitting * 2, most);
  }
  return fitting;
}

}  // namespace lockstep::train
