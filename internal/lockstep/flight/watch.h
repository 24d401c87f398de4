// SPDX-License-Identifier: Apache-2.0
// What is said and done about running ranks that have not gone on for some time: limits of sections, also where no
// collective waits, patience with long work, and a line about whom the others wait for. Pure functions of the rings and
// the states of the processes. After the sections of NVIDIA's resiliency extension.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/flight/verdict.h"

#pragma GCC visibility push(default)

namespace lockstep::flight {

/// The limit of a section without one of its own: `factor` times the longest that any rank here has seen of that name,
/// and at least `least_ns`. Of a name that nobody has seen end yet, the first may take as long as a collective may
/// wait, and long work (setup, evaluate, save) at least `first_long_ns`.
struct SectionRules {
  int factor = 10;                                 ///< times the longest so far
  std::int64_t least_ns = 60'000'000'000;          ///< the least limit: a minute
  std::int64_t first_long_ns = 1'800'000'000'000;  ///< the first limit of long work: half an hour
};

/// How long a section may take.
struct SectionLimit {
  std::int64_t ns = 0;          ///< 0: none
  std::int64_t longest_ns = 0;  ///< from which it was learned; 0: it was not
  bool is_set = false;          ///< by the scope object or the user
};

/// What is known at a moment.
struct WatchFacts {
  std::vector<RankFacts> ranks;  ///< the ranks of this host
  std::int64_t now_ns = 0;       ///< the present CLOCK_MONOTONIC
  std::int64_t watched_since_ns =
      0;                    ///< the watch itself was stopped or did not exist before: that time does not count
  SectionRules rules = {};  ///< how limits are made
};

/// Returns how long the rank may stay in this section without a sign of life.
[[nodiscard]] SectionLimit limit_of(const Section& section, const WatchFacts& facts);

/// Returns which rank has been longer in a section than its limit allows, as a kHang; none: no rank. A rank that waits
/// in a collective is not late, and every event inside the section is a sign of life.
[[nodiscard]] std::optional<FailureRecord> judge_sections(const WatchFacts& facts);

/// Returns whether some rank does long work (setup, evaluate, save, or a section with a limit that was set) which is
/// within its limit. Then the others have to wait for it.
[[nodiscard]] bool has_long_work(const WatchFacts& facts);

/// A wait worth a line.
struct Stall {
  std::int64_t since_ns = 0;  ///< CLOCK_MONOTONIC when the wait began
  std::string text;  ///< "ranks 0, 2 wait since 30.1 s in all_reduce for rank 1: it computes in backward of step 77"
};

/// Returns the longest wait of ranks for one of these ranks or for another node's, or, where nobody waits, the rank
/// that has been without a sign of life for longer than three times the longest of its section.
[[nodiscard]] std::optional<Stall> longest_stall(const WatchFacts& facts);

}  // namespace lockstep::flight

#pragma GCC visibility pop
