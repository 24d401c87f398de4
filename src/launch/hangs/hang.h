// SPDX-License-Identifier: Apache-2.0
// From the evidence about this node's ranks, builds the coordinator's record of the rank that the others waited for.
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

/// The facts that an agent has about a rank of its node.
struct WatchedRank {
  int rank = 0;
  pid_t pid = 0;  ///< the worker's process, which may be a script that started the rank
  FlightRing* ring = nullptr;
  bool has_ended = false;
  bool has_succeeded = false;  ///< it has exited with 0
  std::filesystem::path stack_file = {};
};

/// Returns the record of the rank that the others were waiting for; none if no rank was waiting for a rank of this
/// node. Call it when a rank has given up waiting, and before anything is stopped. `waiter` is the record of a rank
/// elsewhere, if one gave up.
[[nodiscard]] std::optional<FailureRecord> find_hang(const std::vector<WatchedRank>& ranks,
                                                     const FailureRecord* waiter = nullptr);

/// Finds a rank that was stopped, so that its peers could not reach it. Call it when ranks report that a peer died,
/// although no rank of this node has died.
[[nodiscard]] std::optional<FailureRecord> find_stopped(const std::vector<WatchedRank>& ranks);

/// Finds a rank that exited without an error while others were waiting. Call it when a rank reports a dead peer.
[[nodiscard]] std::optional<FailureRecord> find_left(const std::vector<WatchedRank>& ranks);

/// Finds the rank whose collective call differed from all others. Call it when a rank reports that the calls differed.
[[nodiscard]] std::optional<FailureRecord> find_odd(const std::vector<WatchedRank>& ranks);

/// Returns the stacks of the late rank, line by line, if it is alive. Call it before anything is stopped. Blocks: for
/// at most 2 s.
[[nodiscard]] std::vector<std::string> stacks_of_late(const FailureRecord& found,
                                                      const std::vector<WatchedRank>& ranks);

/// Returns the current facts from the ranks' rings, without events, and from their processes.
[[nodiscard]] std::vector<flight::RankFacts> states_of(const std::vector<WatchedRank>& ranks);

/// Prints a warning about the finding, if there is one, and returns it.
[[nodiscard]] std::optional<FailureRecord> warned(std::optional<FailureRecord> found);

}  // namespace lockstep::launch
