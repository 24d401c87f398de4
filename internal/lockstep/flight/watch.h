// SPDX-License-Identifier: Apache-2.0
// Watches running ranks: finds sections that exceed their limits, even if no collective waits; long work that other
// ranks must wait for; and the rank that other ranks wait for. All functions are pure functions of the rings and
// process states. The sections are modeled on NVIDIA's resiliency extension.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/flight/verdict.h"

#pragma GCC visibility push(default)

namespace lockstep::flight {

/// The rules for the limit of a section without its own limit: `factor` times the longest section of that name on any
/// rank of this host, and at least `least_ns`. If no section of that name has ended yet, the limit is the timeout of a
/// collective, and at least `least_ns`. The first long-running section of its name (setup, evaluate, save) has at
/// least `least_long_ns` instead. Later setups and saves have so too, however short the earlier ones were: a save in
/// the background lasts a moment, unless the one before it is still being written.
struct SectionRules {
  int factor = 10;                                 ///< multiple of the longest section so far
  std::int64_t least_ns = 60'000'000'000;          ///< lowest limit: a minute
  std::int64_t least_long_ns = 1'800'000'000'000;  ///< lowest limit of a long-running section: half an hour
};

/// The time limit of a section.
struct SectionLimit {
  std::int64_t ns = 0;          ///< the limit; 0: none
  std::int64_t longest_ns = 0;  ///< the longest section, from which it was learned; 0: it was not learned
  bool is_set = false;          ///< set only for this section, or by the user
};

/// The state of the ranks at one moment.
struct WatchFacts {
  std::vector<RankFacts> ranks;       ///< the ranks of this host
  std::int64_t now_ns = 0;            ///< the current CLOCK_MONOTONIC
  std::int64_t watched_since_ns = 0;  ///< start of this watch; earlier time does not count
  SectionRules rules = {};            ///< the rules for limits
};

/// Returns the time that a rank may spend in `section` without an event.
[[nodiscard]] SectionLimit limit_of(const Section& section, const WatchFacts& facts);

/// Returns a rank that has exceeded the limit of its section, as a kHang; none if no rank has. A rank that waits in a
/// collective is not late, and every event inside the section restarts its time limit.
[[nodiscard]] std::optional<FailureRecord> judge_sections(const WatchFacts& facts);

/// Returns true if a rank is in a long-running section (setup, evaluate, save, or one whose limit was set) and has not
/// exceeded its limit. The other ranks must then wait for it.
[[nodiscard]] bool has_long_work(const WatchFacts& facts);

/// A wait that is worth a line in the log.
struct Stall {
  std::int64_t since_ns = 0;  ///< CLOCK_MONOTONIC when the wait began
  std::string text;           ///< "ranks 0, 2 wait in all_reduce for rank 1 (30.1 s so far): it computes in step 77"
};

/// Returns the longest wait for a rank of this host or of another node. If no rank waits, returns a rank that has been
/// in a section without an event for more than three times the longest section of that name.
[[nodiscard]] std::optional<Stall> longest_stall(const WatchFacts& facts);

}  // namespace lockstep::flight

#pragma GCC visibility pop
