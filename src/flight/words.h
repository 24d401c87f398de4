// SPDX-License-Identifier: Apache-2.0
// The facts about one rank, in words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/flight/verdict.h"

namespace lockstep::flight {

/// The reason why a rank does not come.
enum class Cause : std::uint8_t {
  kStopped,          ///< by a signal or a debugger
  kUninterruptible,  ///< it waits for a device in the kernel: a disk, a network disk
  kSwapped,          ///< most of it is on the swap disk
  kSlowData,         ///< it waits for the loader
  kBusy,             ///< it computes in a section
  kWaits,            ///< it sleeps in a section; the recorder does not know why
  kLeft,             ///< its program ended without an error while others still called collectives
};

[[nodiscard]] Cause cause_of(const RankFacts& facts);

/// The order of blame among late ranks, the smallest first: the state of a process is better evidence than its place in
/// the program.
[[nodiscard]] int weight(const RankFacts& facts);

/// Returns the rank to blame, of those for which `is_late` is true; nullptr: none.
template <class IsLate>
const RankFacts* most_surely(const std::vector<RankFacts>& all, const IsLate& is_late) {
  const RankFacts* late = nullptr;
  for (const RankFacts& each : all) {
    if (is_late(each) && (late == nullptr || weight(each) < weight(*late))) late = &each;
  }
  return late;
}

/// True if the kernel does not let the process go on.
[[nodiscard]] bool is_held(const RankFacts& facts);

[[nodiscard]] bool runs_collective(const RankFacts& facts);

/// Returns " in backward of step 418", or as much as is known.
[[nodiscard]] std::string place_of(const RankFacts& facts);

/// Returns, for instance, "it computes" or "stopped by SIGSTOP (or SIGTSTP)".
[[nodiscard]] std::string words_of(const RankFacts& facts);

/// Returns " (5.0 s so far)", or " (5.0 s so far; LIMIT)"; empty for a time of 0.
[[nodiscard]] std::string time_text(std::int64_t from_ns, std::int64_t now_ns, const std::string& limit = "");

/// Returns advice about a rank that is late; `limit` is the setting to raise.
[[nodiscard]] std::string late_hint(const std::string& limit);

/// Returns, for instance, "rank 2" or "ranks 0, 1, 3".
[[nodiscard]] std::string ranks_text(const std::vector<int>& ranks);

/// The collective that holds up ranks, the ranks that wait in it, and the rank that they wait for.
struct HeldUp {
  Lane lane;
  std::vector<int> waiting = {};
  const RankFacts* late = nullptr;  ///< one of those given to held_up()
};

/// Ranks may wait in several collectives. The first of them that some rank has not entered, or cannot finish, holds up
/// the rest. None: no rank waits for one of these ranks.
[[nodiscard]] std::optional<HeldUp> held_up(const std::vector<RankFacts>& all);

/// Returns "ranks 0, 1 wait in all_reduce (bucket 3 of 7)".
[[nodiscard]] std::string waiting_text(const HeldUp& held);

}  // namespace lockstep::flight
