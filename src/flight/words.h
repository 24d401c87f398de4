// SPDX-License-Identifier: Apache-2.0
// Describes the facts about a rank as text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/flight/verdict.h"

namespace lockstep::flight {

/// The reason why a rank is late.
enum class Cause : std::uint8_t {
  kStopped,          ///< a signal or a debugger has stopped it
  kUninterruptible,  ///< waiting in the kernel for a device, such as a disk or a network file system
  kSwapped,          ///< most of its memory is on the swap disk
  kSlowData,         ///< waiting for the data loader
  kBusy,             ///< busy computing in a section
  kWaits,            ///< sleeping in a section; the recorder does not know why
  kLeft,             ///< its program ended without an error while other ranks still called collectives
};

[[nodiscard]] Cause cause_of(const RankFacts& facts);

/// Returns a sort key for late ranks; the rank with the smallest key is the most likely cause. The state of a process
/// is better evidence than its place in the program.
[[nodiscard]] int weight(const RankFacts& facts);

/// Returns the most likely cause among the ranks for which `is_late` is true; nullptr if there is none.
template <class IsLate>
const RankFacts* most_surely(const std::vector<RankFacts>& all, const IsLate& is_late) {
  const RankFacts* late = nullptr;
  for (const RankFacts& each : all) {
    if (is_late(each) && (late == nullptr || weight(each) < weight(*late))) late = &each;
  }
  return late;
}

/// Returns true if the kernel keeps the process from running.
[[nodiscard]] bool is_held(const RankFacts& facts);

[[nodiscard]] bool runs_collective(const RankFacts& facts);

/// Returns, for instance, "it computes" or "stopped by SIGSTOP (or SIGTSTP)".
[[nodiscard]] std::string words_of(const RankFacts& facts);

/// Returns " (5.0 s so far)", or " (5.0 s so far; LIMIT)"; empty for a time of 0.
[[nodiscard]] std::string time_text(std::int64_t from_ns, std::int64_t now_ns, const std::string& limit = "");

/// Returns advice about a rank that is late; `limit` is the setting to raise.
[[nodiscard]] std::string late_hint(const std::string& limit);

/// Returns, for instance, "rank 2" or "ranks 0, 1, 3".
[[nodiscard]] std::string ranks_text(const std::vector<int>& ranks);

/// A collective, the ranks waiting in it, and the rank that they are waiting for.
struct HeldUp {
  Lane lane;
  std::vector<int> waiting = {};
  const RankFacts* late = nullptr;  ///< a rank of held_up()'s argument
};

/// Returns the collective that blocks the ranks. If they wait in several, returns the first that some rank has not
/// entered or cannot finish. Returns none if no rank waits for a rank of `all`.
[[nodiscard]] std::optional<HeldUp> held_up(const std::vector<RankFacts>& all);

/// Returns "ranks 0, 1 wait in all_reduce (bucket 3 of 7)".
[[nodiscard]] std::string waiting_text(const HeldUp& held);

}  // namespace lockstep::flight
