// SPDX-License-Identifier: Apache-2.0
// Which rank the others waited for: the evidence of this node's ranks, and the record for the coordinator.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/hangs/flight_ring.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/flight/verdict.h"

namespace lockstep::launch {

/// A rank of this node, as its agent has it.
struct WatchedRank {
  int rank = 0;
  pid_t pid = 0;  ///< of the worker, which may be a script that started the rank
  FlightRing* ring = nullptr;
  bool has_ended = false;
  bool has_succeeded = false;  ///< it has ended with 0
  std::filesystem::path stack_file = {};
};

/// Call it when a rank has given up waiting, before anything is stopped. `waiter`: the record of a rank of another
/// node, where such a one gave up. None: nobody waited for a rank of this node.
[[nodiscard]] std::optional<FailureRecord> find_hang(const std::vector<WatchedRank>& ranks,
                                                     const FailureRecord* waiter = nullptr);

/// Call it when ranks say that a peer died, and none of this node did: a rank that was stopped, and that they could not
/// reach.
[[nodiscard]] std::optional<FailureRecord> find_stopped(const std::vector<WatchedRank>& ranks);

/// Call it when a rank says that a peer died: one whose program has ended without an error, while others waited for it.
[[nodiscard]] std::optional<FailureRecord> find_left(const std::vector<WatchedRank>& ranks);

/// Call it when a rank says that the calls differed: the rank that called another collective than the rest.
[[nodiscard]] std::optional<FailureRecord> find_odd(const std::vector<WatchedRank>& ranks);

/// Returns the stacks of the rank that is late, if it lives, a line each. Call it before anything is stopped. It blocks
/// for 2 s at most.
[[nodiscard]] std::vector<std::string> stacks_of_late(const FailureRecord& found,
                                                      const std::vector<WatchedRank>& ranks);

/// Returns what the ranks' rings, without their events, and their processes say now.
[[nodiscard]] std::vector<flight::RankFacts> states_of(const std::vector<WatchedRank>& ranks);

/// Warns of what was found, if anything was, and returns it: the job's last word.
[[nodiscard]] std::optional<FailureRecord> warned(std::optional<FailureRecord> found);

}  // namespace lockstep::launch
