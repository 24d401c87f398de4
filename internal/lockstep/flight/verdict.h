// SPDX-License-Identifier: Apache-2.0
// Explains in one line why ranks hang or ended, from their flight rings and the states of their processes. Pure
// functions.
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

/// The facts about one rank.
struct RankFacts {
  int rank = 0;                       ///< its number
  std::string host = {};              ///< its host's name
  std::optional<Snapshot> ring = {};  ///< its recorder's ring; none: it has no ring
  ProcessState process = {};          ///< the state of its process, from the kernel
};

/// The advice if a rank's program ended without an error while others still called collectives.
inline constexpr const char* kLeftHint =
    "every rank must call the same collectives; uneven data: Join, or the same number of batches on each rank";

/// Returns the timeout of the ranks' collectives in nanoseconds; 0: unknown.
[[nodiscard]] std::int64_t timeout_of(const std::vector<RankFacts>& ranks);

/// Returns true if a signal or a debugger holds the rank's process.
[[nodiscard]] bool is_stopped(const RankFacts& facts);

/// Finds the rank that the others wait for, and the reason, as a kHang: "rank 2 hangs: stopped by SIGSTOP in backward
/// of step 418 (5.0 s so far); ranks 0, 1 wait in ...". A rank that left is a PeerError, a late one a TimeoutError.
/// Call it once ranks have given up. `facts` has the ranks that this host can see. A group's collective waits for ranks
/// that have not begun it, and for ranks that were stopped, inside it or elsewhere. `waiter`: the timeout of a rank of
/// another host; the late rank is then the one that is in no collective, or cannot go on in one. Returns none if no
/// rank waits for one of these.
[[nodiscard]] std::optional<FailureRecord> judge(const std::vector<RankFacts>& facts, std::int64_t now_ns,
                                                 const FailureRecord* waiter = nullptr);

/// Compares the calls of the ranks for the operation that failed: by name, else by size. Returns the rank that called a
/// different collective from the rest, as a kHang and UsageError: "rank 2 called barrier as operation 12 in step 77,
/// but ranks 0, 1 called all_reduce". None: no operation has failed, the ranks of this host called the same, or there
/// is no majority (of two ranks neither is odd).
[[nodiscard]] std::optional<FailureRecord> find_odd_call(const std::vector<RankFacts>& facts);

}  // namespace lockstep::flight

#pragma GCC visibility pop
