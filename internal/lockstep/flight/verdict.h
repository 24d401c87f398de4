// SPDX-License-Identifier: Apache-2.0
// Why ranks hang or ended, in one line, out of their flight rings and the states of their processes. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/flight/snapshot.h"

#pragma GCC visibility push(default)

namespace lockstep::flight {

/// A process as the kernel sees it.
struct ProcessState {
  bool has_ended = false;      ///< the process is gone
  int wait_status = 0;         ///< of one that has ended
  char state = '?';            ///< of /proc/PID/stat: R runs, S sleeps, D cannot be interrupted, T stopped, t traced
  std::string waits_in = {};   ///< the kernel's function in which it sleeps; empty: unknown
  std::uint64_t resident = 0;  ///< bytes in memory
  std::uint64_t swapped = 0;   ///< bytes on the swap disk
  double cpu_share = -1;       ///< of one core, of late; below 0: unknown
};

/// What is known of one rank.
struct RankFacts {
  int rank = 0;                       ///< its number
  std::string host = {};              ///< its host's name
  std::optional<Snapshot> ring = {};  ///< what its recorder says; none: it has none
  ProcessState process = {};          ///< what the kernel says of its process
};

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

/// Which rank the others wait for, and why.
struct Verdict {
  Cause cause = Cause::kWaits;  ///< why it does not come
  int rank = 0;                 ///< its number
  std::string text;  ///< "rank 2 hangs: stopped by SIGSTOP in backward of step 418 since 5.0 s; ranks 0, 1 wait in ..."
  std::string section = {};  ///< whose limit it passed (judge_sections()); empty: a collective timed out
};

/// Returns whether a signal or a debugger holds the rank's process.
[[nodiscard]] bool is_stopped(const RankFacts& facts);

/// Returns which rank the others wait for, and why it does not come. Call it once ranks have given up. The ranks of
/// `facts` are those that this host can see; a group's collective waits for those that have not begun it, and for those
/// that were stopped, inside it or elsewhere. None: nobody waits for one of these.
[[nodiscard]] std::optional<Verdict> judge(const std::vector<RankFacts>& facts, std::int64_t now_ns);

/// A rank of another host that gave up waiting.
struct Waiter {
  int rank = 0;                ///< its number
  std::string host = {};       ///< its host's name
  std::string operation = {};  ///< "all_reduce"
};

/// The same where the ranks that wait are on other hosts: of the ranks that this host can see, the one that is in no
/// collective, or cannot go on in one.
[[nodiscard]] std::optional<Verdict> judge_for(const Waiter& waiter, const std::vector<RankFacts>& facts,
                                               std::int64_t now_ns);

}  // namespace lockstep::flight

#pragma GCC visibility pop
