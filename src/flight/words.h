// SPDX-License-Identifier: Apache-2.0
// What the facts about one rank say, in words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/flight/verdict.h"

namespace lockstep::flight {

[[nodiscard]] Cause cause_of(const RankFacts& facts);

/// Who is most surely to blame, where several are late: a state of the process says more than a place in a program.
/// The smallest is.
[[nodiscard]] int weight(const RankFacts& facts);

/// The kernel does not let it go on.
[[nodiscard]] bool is_held(const RankFacts& facts);

[[nodiscard]] bool runs_collective(const RankFacts& facts);

/// Returns " in backward of step 418", as far as it is known.
[[nodiscard]] std::string place_of(const RankFacts& facts);

/// Returns "it computes", "stopped by SIGSTOP (or SIGTSTP)".
[[nodiscard]] std::string words_of(const RankFacts& facts);

/// Returns " since 5.0 s"; empty for a time of 0.
[[nodiscard]] std::string since_text(std::int64_t from_ns, std::int64_t now_ns);

/// Returns "rank 2", "ranks 0, 1, 3".
[[nodiscard]] std::string ranks_text(const std::vector<int>& ranks);

/// The collective that holds ranks up, who waits in it, and for whom.
struct HeldUp {
  Lane lane;
  std::vector<int> waiting = {};
  const RankFacts* late = nullptr;  ///< one of those that held_up() was given
};

/// Ranks may wait in several collectives: the one that began first among those that some rank is not in, or cannot go
/// on in, holds up the rest. None: nobody waits for one of these ranks.
[[nodiscard]] std::optional<HeldUp> held_up(const std::vector<RankFacts>& all);

/// Returns "ranks 0, 1 wait in all_reduce (bucket 3 of 7)".
[[nodiscard]] std::string waiting_text(const HeldUp& held);

}  // namespace lockstep::flight
