// SPDX-License-Identifier: Apache-2.0
// Finds the first of several failures, and builds the record of a lost node. All functions are pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/failure_record.h"
#include "lockstep/store/store.h"

namespace lockstep::launch {

/// The evidence about a rank that failed, or about the ranks of a node.
struct Suspect {
  int rank = -1;              ///< the rank that failed; -1 if unknown
  bool is_late = false;       ///< its launcher found that others were waiting for it, even if one of them gave up first
  bool has_own_code = false;  ///< it ended with its own error, even if it was stopped while unwinding
  bool is_consequence = false;  ///< another rank ended first, according to this rank's error or its launcher
  bool was_stopped = false;     ///< its launcher had already sent it a signal
};

/// Returns the index of the failure to blame among `suspects`, which are in the order they ended; none if there are no
/// suspects.
/// `claim`, the first failure that a rank or its agent has published, wins unless that rank was itself only a
/// consequence.
[[nodiscard]] std::optional<std::size_t> blame(const std::vector<Suspect>& suspects,
                                               const std::optional<FailureRecord>& claim);

/// A node of the group, for messages.
struct NodeName {
  int node_rank = 0;
  std::string host;
  int first_rank = 0;
  int ranks = 1;
};

/// Returns "rank 2", "ranks 2 to 3".
[[nodiscard]] std::string ranks_text(const NodeName& node);

/// Returns how long a node may be silent before it counts as lost: 6 s, or half of LOCKSTEP_TIMEOUT (but at least 1 s)
/// if that is less.
[[nodiscard]] std::chrono::milliseconds node_silence(std::chrono::milliseconds collective_timeout);

/// Returns the record of a node whose agent's connection to the store was "closed", or "silent" for `silence`.
[[nodiscard]] FailureRecord lost_node(const NodeName& node, const std::string& why, std::chrono::milliseconds silence);

/// Returns the record of a node whose agent lost the store and came back: the agent could not reach `server`, the node
/// that serves the store.
[[nodiscard]] FailureRecord unreachable_server(const NodeName& server, const NodeName& node);

/// Returns the record of a node that gave up on `server`, whose launcher had been stopped for `stopped`.
[[nodiscard]] FailureRecord given_up(const NodeName& server, const NodeName& node, std::chrono::milliseconds stopped);

/// Returns the other agents' record of node 0 when its store is gone. `why` is "closed" or "silent".
[[nodiscard]] FailureRecord lost_node_zero(const StoreAddress& address, const std::string& why,
                                           std::chrono::milliseconds silence);

/// Returns true if a restart would run into the same error: bad input, for example (lockstep/launch/restart.h).
[[nodiscard]] bool would_recur(const FailureRecord& cause);

/// Returns true if a lost node, which has `ranks` ranks starting at lost.rank, is to blame rather than the rank that
/// `claim` names. After the loss of a node, ranks elsewhere fail with timeouts, closed connections or library errors.
/// The node is to blame, unless a rank of that node, or a rank that failed well before, had published its own error.
[[nodiscard]] bool blames_node(const FailureRecord& lost, int ranks, const std::optional<FailureRecord>& claim,
                               std::chrono::milliseconds silence);

}  // namespace lockstep::launch
