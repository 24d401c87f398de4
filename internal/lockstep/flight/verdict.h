// SPDX-License-Identifier: Apache-2.0
// Why ranks hang or ended, in one line, out of their flight rings and the states of their processes. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/failure_record.h"
#include "lockstep/flight/snapshot.h"

#pragma GCC visibility push(default)

namespace lockstep::flight {

/// A process as the kernel sees it.
struct ProcessState {
  bool has_ended = false;      ///< the process is gone
  char state = '?';            ///< of /proc/PID/stat: R runs, S sleeps, D cannot be interrupted, T stopped, t traced
  std::string waits_in = {};   ///< the kernel's function in which it sleeps; empty: unknown
  std::uint64_t resident = 0;  ///< bytes in memory
  std::uint64_t swapped = 0;   ///< bytes on the swap disk
};

/// What is known of one rank.
struct RankFacts {
  int rank = 0;                       ///< its number
  std::string host = {};              ///< its host's name
  std::optional<Snapshot> ring = {};  ///< what its recorder says; none: it has none
  ProcessState process = {};          ///< what the kernel says of its process
};

/// What to do where a rank's program ended without an error while others still called collectives.
inline constexpr const char* kLeftHint =
    "every rank must call the same collectives; uneven data: Join, or the same number of batches on each rank";

/// Returns the limit of the ranks' collectives in nanoseconds; 0: unknown.
[[nodiscard]] std::int64_t timeout_of(const std::vector<RankFacts>& ranks);

/// Returns whether a signal or a debugger holds the rank's process.
[[nodiscard]] bool is_stopped(const RankFacts& facts);

/// Returns which rank the others wait for, as a kHang, and why it does not come: "rank 2 hangs: stopped by SIGSTOP in
/// backward of step 418 since 5.0 s; ranks 0, 1 wait in ...". One that left is a PeerError, one that is late a
/// TimeoutError. Call it once ranks have given up. The ranks of `facts` are those that this host can see; a group's
/// collective waits for those that have not begun it, and for those that were stopped, inside it or elsewhere.
/// `waiter`: the timeout of a rank of another host; then it is the rank that is in no collective, or cannot go on in
/// one. None: nobody waits for one of these.
[[nodiscard]] std::optional<FailureRecord> judge(const std::vector<RankFacts>& facts, std::int64_t now_ns,
                                                 const FailureRecord* waiter = nullptr);

/// Compares what the ranks called as the operation that failed, by its name, else by its size. Returns the rank that
/// called another collective than the rest, as a kHang and UsageError: "rank 2 called barrier as operation 12 of step
/// 77, where ranks 0, 1 called all_reduce". None: no operation has failed, the ranks of this host called the same, or
/// there is no majority (of two ranks nobody is odd).
[[nodiscard]] std::optional<FailureRecord> find_odd_call(const std::vector<RankFacts>& facts);

}  // namespace lockstep::flight

#pragma GCC visibility pop
