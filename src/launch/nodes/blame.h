// SPDX-License-Identifier: Apache-2.0
// Finds the first of several failures, and makes the record of a node that is lost. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/failure_record.h"
#include "lockstep/store/store.h"

namespace lockstep::launch {

/// The evidence for and against a rank that failed, or the ranks of a node.
struct Suspect {
  int rank = -1;                ///< that failed; -1: unknown
  bool is_late = false;         ///< its launcher found that the others waited for it, whoever gave up first
  bool has_own_code = false;    ///< it ended with an error of its own, even if it was stopped while it unwound
  bool is_consequence = false;  ///< another's end came first, as its error or its launcher says
  bool was_stopped = false;     ///< its launcher had sent it a signal
};

/// Returns the index of the failure to blame among `suspects`, in the order in which they ended; none: there are none.
/// `claim`, the first failure that a rank or its agent has published, wins unless that rank was itself only a
/// consequence.
[[nodiscard]] std::optional<std::size_t> blame(const std::vector<Suspect>& suspects,
                                               const std::optional<FailureRecord>& claim);

/// The name of a group's node, for messages.
struct NodeName {
  int node_rank = 0;
  std::string host;
  int first_rank = 0;
  int ranks = 1;
};

/// Returns "rank 2", "ranks 2 to 3".
[[nodiscard]] std::string ranks_text(const NodeName& node);

/// The time for which a node may be silent before it is lost: 6 s, or half of LOCKSTEP_TIMEOUT (but 1 s at least) if
/// that is less.
[[nodiscard]] std::chrono::milliseconds node_silence(std::chrono::milliseconds collective_timeout);

/// The record of a node whose agent's connection to the store was "closed" or "silent" for `silence`.
[[nodiscard]] FailureRecord lost_node(const NodeName& node, const std::string& why, std::chrono::milliseconds silence);

/// The record of a node whose agent lost the store and came back: `server`, which serves it, was out of its reach.
[[nodiscard]] FailureRecord unreachable_server(const NodeName& server, const NodeName& node);

/// The record of a node that gave `server` up, whose launcher was stopped for `stopped`.
[[nodiscard]] FailureRecord given_up(const NodeName& server, const NodeName& node, std::chrono::milliseconds stopped);

/// Node 0 as the other agents see it when its store is gone. `why`: "closed" or "silent".
[[nodiscard]] FailureRecord lost_node_zero(const StoreAddress& address, const std::string& why,
                                           std::chrono::milliseconds silence);

/// True if a lost node, with `ranks` from lost.rank, is to blame and not the rank that `claim` names. After the loss of
/// a node, ranks elsewhere fail with timeouts, closed connections or errors of their own libraries: the node is to
/// blame, unless a rank of that node, or one that failed well before, had published an error of its own.
[[nodiscard]] bool blames_node(const FailureRecord& lost, int ranks, const std::optional<FailureRecord>& claim,
                               std::chrono::milliseconds silence);

}  // namespace lockstep::launch
