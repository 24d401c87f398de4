// SPDX-License-Identifier: Apache-2.0
// Finds the rank that the others waited for: the evidence of this node's ranks, and the record for the coordinator.
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

/// A rank of this node, as its agent sees it.
struct WatchedRank {
  int rank = 0;
  pid_t pid = 0;  ///< the worker, which may be a script that started the rank
  FlightRing* ring = nullptr;
  bool has_ended = false;
  bool has_succeeded = false;  ///< it has ended with 0
  std::filesystem::path stack_file = {};
};

/// Call it when a rank has given up waiting, before anything is stopped. `waiter`: the record of the rank of another
/// node that gave up, if one did. None: no rank waited for a rank of this node.
[[nodiscard]] std::optional<FailureRecord> find_hang(const std::vector<WatchedRank>& ranks,
                                                     const FailureRecord* waiter = nullptr);

/// Call it when ranks report that a peer died, and none of this node did: finds a rank that was stopped, so that they
/// could not reach it.
[[nodiscard]] std::optional<FailureRecord> find_stopped(const std::vector<WatchedRank>& ranks);

/// Call it when a rank reports that a peer died: finds one whose program has ended without an error while others
/// waited.
[[nodiscard]] std::optional<FailureRecord> find_left(const std::vector<WatchedRank>& ranks);

/// Call it when a rank reports that the calls differed: finds the rank that called another collective than the rest.
[[nodiscard]] std::optional<FailureRecord> find_odd(const std::vector<WatchedRank>& ranks);

/// Returns the stacks of the rank that is late, if it lives, a line each. Call it before anything is stopped. It blocks
/// for 2 s at most.
[[nodiscard]] std::vector<std::string> stacks_of_late(const FailureRecord& found,
                                                      const std::vector<WatchedRank>& ranks);

/// Returns the present facts of the ranks' rings, without their events, and of their processes.
[[nodiscard]] std::vector<flight::RankFacts> states_of(const std::vector<WatchedRank>& ranks);

/// Warns of the finding, if there is one, and returns it: the job's last word.
[[nodiscard]] std::optional<FailureRecord> warned(std::optional<FailureRecord> found);

}  // namespace lockstep::launch
