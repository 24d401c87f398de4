// SPDX-License-Identifier: Apache-2.0
// The offset of a rank's clock from rank 0's. Ranks of one host share a clock; that of another host began at its own
// boot.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/comm/job.h"

#pragma GCC visibility push(default)

namespace lockstep::observe {

/// When a rank entered a barrier and left it, in nanoseconds of its own clock.
struct ClockRound {
  std::int64_t before_ns = 0;  ///< when it entered
  std::int64_t after_ns = 0;   ///< when it left
};

/// The difference between a rank's clock and rank 0's.
struct ClockOffset {
  std::int64_t offset_ns = 0;  ///< this rank's clock less rank 0's
  std::int64_t error_ns = 0;   ///< the largest error of the offset
};

/// Every rank leaves a barrier after every other has entered it. So the offset lies between the largest
/// own.before - main.after and the smallest own.after - main.before; the result is their middle.
/// Throws: UsageError if the numbers of rounds differ or there is none.
[[nodiscard]] ClockOffset clock_offset(const std::vector<ClockRound>& own, const std::vector<ClockRound>& main);

/// Measures this rank's offset with 64 barriers; 0 without any if all ranks have one clock.
/// Collective: yes. Blocks: yes. Throws: as Work::wait.
[[nodiscard]] ClockOffset measure_clock_offset(const Job& job);

/// Returns the nanoseconds of CLOCK_MONOTONIC.
[[nodiscard]] std::int64_t monotonic_ns() noexcept;

}  // namespace lockstep::observe

#pragma GCC visibility pop
