// SPDX-License-Identifier: Apache-2.0
// Explains in one line why ranks hang or ended, from their flight rings and process states. All functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/failure_record.h"
#include "lockstep/flight/snapshot.h"

#pragma GCC visibility push(default)

namespace lockstep::flight {

/// The state of a process, from the kernel.
struct ProcessState {
  bool has_ended = false;  ///< the process is gone
  char state = '?';        ///< state in /proc/PID/stat: R running, S sleeping, D uninterruptible, T stopped, t traced
  std::string waits_in = {};   ///< the kernel function in which it sleeps; empty: unknown
  std::uint64_t resident = 0;  ///< bytes in memory
  std::uint64_t swapped = 0;   ///< bytes swapped out
};

/// The facts about one rank.
struct RankFacts {
  int rank = 0;                       ///< the rank's number
  std::string host = {};              ///< name of the rank's host
  std::optional<Snapshot> ring = {};  ///< the ring of its flight recorder; none: it has no ring
  ProcessState process = {};          ///< the state of its process, from the kernel
};

/// The advice if a rank's program ended without an error while other ranks were still calling collectives.
inline constexpr const char* kLeftHint =
    "every rank must call the same collectives; for uneven data, use Join or the same number of batches on each rank";

/// Returns " in backward of step 418", or as much of it as is known.
[[nodiscard]] std::string place_of(const RankFacts& facts);

/// Returns the timeout of the ranks' collectives in nanoseconds; 0 if unknown.
[[nodiscard]] std::int64_t timeout_of(const std::vector<RankFacts>& ranks);

/// Returns true if a signal or a debugger has stopped the rank's process.
[[nodiscard]] bool is_stopped(const RankFacts& facts);

/// Finds the rank that the other ranks wait for, and the reason, as a kHang: "rank 2 hangs: stopped by SIGSTOP in
/// backward of step 418 (5.0 s so far); ranks 0, 1 wait in ...". The error is a PeerError if the rank's program has
/// ended, and a TimeoutError if the rank is late. Call it once collectives have timed out. `facts` holds the ranks that
/// this host can see. A collective waits for ranks that have not begun it, and for ranks that were stopped, inside it
/// or elsewhere. `waiter`, if given, is the timeout of a rank on another host; the late rank is then the one that is
/// outside collectives, or that cannot continue in a collective. Returns none if the other ranks do not wait for a rank
/// in `facts`.
[[nodiscard]] std::optional<FailureRecord> judge(const std::vector<RankFacts>& facts, std::int64_t now_ns,
                                                 const FailureRecord* waiter = nullptr);

/// Compares the ranks' calls for the operation that failed, by name, else by size. Returns the rank whose collective
/// differs from the other ranks', as a kHang and UsageError: "rank 2 called barrier as operation 12 in step 77, but
/// ranks 0, 1 called all_reduce". Returns none if no operation has failed, if the ranks of this host made the same
/// call, or if there is no majority (as with two ranks).
[[nodiscard]] std::optional<FailureRecord> find_odd_call(const std::vector<RankFacts>& facts);

}  // namespace lockstep::flight

#pragma GCC visibility pop
