// SPDX-License-Identifier: Apache-2.0
// Watches running ranks that make no progress for some time: limits of sections, even if no collective waits; patience
// with long work; and a line about the rank that the others wait for. Pure functions of the rings and the states of the
// processes. Modeled on the sections of NVIDIA's resiliency extension.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/flight/verdict.h"

#pragma GCC visibility push(default)

namespace lockstep::flight {

/// The rules for the limit of a section without one of its own: `factor` times the longest that any rank here has seen
/// of that name, and at least `least_ns`. If no section of that name has ended yet, the limit is the timeout of a
/// collective, and for long work (setup, evaluate, save) at least `first_long_ns`.
struct SectionRules {
  int factor = 10;                                 ///< times the longest so far
  std::int64_t least_ns = 60'000'000'000;          ///< the least limit: a minute
  std::int64_t first_long_ns = 1'800'000'000'000;  ///< the first limit of long work: half an hour
};

/// The time limit of a section.
struct SectionLimit {
  std::int64_t ns = 0;          ///< 0: none
  std::int64_t longest_ns = 0;  ///< the time that it was learned from; 0: it was not learned
  bool is_set = false;          ///< set by the scope object or the user
};

/// The facts at one moment.
struct WatchFacts {
  std::vector<RankFacts> ranks;       ///< the ranks of this host
  std::int64_t now_ns = 0;            ///< the present CLOCK_MONOTONIC
  std::int64_t watched_since_ns = 0;  ///< earlier time does not count: no watch ran
  SectionRules rules = {};            ///< the rules for limits
};

/// Returns the time that the rank may stay in this section without a sign of life.
[[nodiscard]] SectionLimit limit_of(const Section& section, const WatchFacts& facts);

/// Returns a rank that has exceeded the limit of its section, as a kHang; none: no rank has. A rank that waits in a
/// collective is not late, and every event inside the section is a sign of life.
[[nodiscard]] std::optional<FailureRecord> judge_sections(const WatchFacts& facts);

/// Returns true if a rank does long work (setup, evaluate, save, or a section whose limit was set) within its limit.
/// Then the others have to wait for it.
[[nodiscard]] bool has_long_work(const WatchFacts& facts);

/// A wait that deserves a line in the log.
struct Stall {
  std::int64_t since_ns = 0;  ///< CLOCK_MONOTONIC when the wait began
  std::string text;           ///< "ranks 0, 2 wait in all_reduce for rank 1 (30.1 s so far): it computes in step 77"
};

/// Returns the longest wait for one of these ranks or for a rank of another node. If no rank waits, returns the rank
/// that has been without a sign of life for longer than three times the longest of its section.
[[nodiscard]] std::optional<Stall> longest_stall(const WatchFacts& facts);

}  // namespace lockstep::flight

#pragma GCC visibility pop
