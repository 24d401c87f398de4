// SPDX-License-Identifier: Apache-2.0
// The offset of a rank's clock from rank 0's. Ranks of one host share a clock; each host's clock starts when it boots.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/comm/job.h"

#pragma GCC visibility push(default)

namespace lockstep::observe {

/// The times at which a rank entered and left a barrier, in nanoseconds of its own clock.
struct ClockRound {
  std::int64_t before_ns = 0;  ///< the time of entry
  std::int64_t after_ns = 0;   ///< the time of exit
};

/// The difference between a rank's clock and rank 0's.
struct ClockOffset {
  std::int64_t offset_ns = 0;  ///< this rank's clock minus rank 0's
  std::int64_t error_ns = 0;   ///< the largest error of the offset
};

/// Returns the offset from the rounds of this rank and rank 0. Each rank leaves a barrier after all have entered it, so
/// the offset lies between the largest own.before - main.after and the smallest own.after - main.before. It returns
/// their mean.
/// Throws: UsageError if the numbers of rounds differ or there are no rounds.
[[nodiscard]] ClockOffset clock_offset(const std::vector<ClockRound>& own, const std::vector<ClockRound>& main);

/// Measures this rank's offset with 64 barriers; if all ranks share a clock it is 0, without barriers. Collective: yes.
/// Blocks: yes. Throws: anything Work::wait throws.
[[nodiscard]] ClockOffset measure_clock_offset(const Job& job);

/// Returns the nanoseconds of CLOCK_MONOTONIC.
[[nodiscard]] std::int64_t monotonic_ns() noexcept;

}  // namespace lockstep::observe

#pragma GCC visibility pop
