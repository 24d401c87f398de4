// SPDX-License-Identifier: Apache-2.0
// Which rank the others waited for: the evidence of this node's ranks, and the record for the coordinator.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/hangs/flight_ring.h"
#include "lockstep/base/error.h"
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

/// What the launcher itself has found, which is the job's last word, with the job's exit code.
struct Finding {
  FailureRecord record;
  ExitCode code = ExitCode::kTimeout;
  std::vector<std::string> stacks = {};  ///< of the late rank, a line each
};

/// Call it when a rank has given up waiting, before anything is stopped. None: nobody waited for a rank of this node.
[[nodiscard]] std::optional<Finding> find_hang(const std::vector<WatchedRank>& ranks);

/// The same when the rank that gave up is another node's: `claim` is its record.
[[nodiscard]] std::optional<Finding> find_hang_for(const FailureRecord& claim, const std::vector<WatchedRank>& ranks);

/// Call it when ranks say that a peer died, and none of this node did: a rank that was stopped, and that they could not
/// reach.
[[nodiscard]] std::optional<Finding> find_stopped(const std::vector<WatchedRank>& ranks);

/// Call it when a rank says that a peer died: one whose program has ended without an error, while others waited for it.
[[nodiscard]] std::optional<Finding> find_left(const std::vector<WatchedRank>& ranks);

/// Call it when a rank says that the calls differed: the rank that called another collective than the rest.
[[nodiscard]] std::optional<Finding> find_odd(const std::vector<WatchedRank>& ranks);

/// Adds the stacks of the rank that the finding names, if it lives. Call it before anything is stopped. It blocks for
/// 2 s at most.
void add_stacks(Finding& finding, const std::vector<WatchedRank>& ranks);

/// Returns what the ranks' rings, without their events, and their processes say now.
[[nodiscard]] std::vector<flight::RankFacts> states_of(const std::vector<WatchedRank>& ranks);

/// Returns the limit of the ranks' collectives in nanoseconds; 0: unknown.
[[nodiscard]] std::int64_t timeout_of(const std::vector<flight::RankFacts>& ranks);

/// Warns of the verdict on `facts`, and returns it as a finding.
[[nodiscard]] std::optional<Finding> finding_of(const std::optional<flight::Verdict>& verdict,
                                                const std::vector<flight::RankFacts>& facts);

}  // namespace lockstep::launch
