// SPDX-License-Identifier: Apache-2.0
// What the facts about one rank say, in words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/flight/verdict.h"

namespace lockstep::flight {

/// Why a rank does not come.
enum class Cause : std::uint8_t {
  kStopped,          ///< by a signal or a debugger
  kUninterruptible,  ///< it waits for a device in the kernel: a disk, a network disk
  kSwapped,          ///< most of it is on the swap disk
  kSlowData,         ///< it waits for the loader
  kBusy,             ///< it computes in a section
  kWaits,            ///< it sleeps in a section, in nothing that the recorder knows
  kLeft,             ///< its program ended without an error while others still called collectives
};

[[nodiscard]] Cause cause_of(const RankFacts& facts);

/// Who is most surely to blame, where several are late: a state of the process says more than a place in a program.
/// The smallest is.
[[nodiscard]] int weight(const RankFacts& facts);

/// Returns the one to blame of those for which `is_late` is true; nullptr: none.
template <class IsLate>
const RankFacts* most_surely(const std::vector<RankFacts>& all, const IsLate& is_late) {
  const RankFacts* late = nullptr;
  for (const RankFacts& each : all) {
    if (is_late(each) && (late == nullptr || weight(each) < weight(*late))) late = &each;
  }
  return late;
}

/// The kernel does not let it go on.
[[nodiscard]] bool is_held(const RankFacts& facts);

[[nodiscard]] bool runs_collective(const RankFacts& facts);

/// Returns " in backward of step 418", as far as it is known.
[[nodiscard]] std::string place_of(const RankFacts& facts);

/// Returns "it computes", "stopped by SIGSTOP (or SIGTSTP)".
[[nodiscard]] std::string words_of(const RankFacts& facts);

/// Returns " since 5.0 s"; empty for a time of 0.
[[nodiscard]] std::string since_text(std::int64_t from_ns, std::int64_t now_ns);

/// Returns what to do about a rank that is late: `limit` is what to set.
[[nodiscard]] std::string late_hint(const std::string& limit);

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
