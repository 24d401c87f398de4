// SPDX-License-Identifier: Apache-2.0
// A node that is lost: the record that is made of it, and which failure came first. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "lockstep/base/failure_record.h"
#include "lockstep/store/store.h"

namespace lockstep::launch {

/// How long a node may be silent before it is lost: 6 s, or half of LOCKSTEP_TIMEOUT (but 1 s at least) where that is
/// less.
[[nodiscard]] std::chrono::milliseconds node_silence(std::chrono::milliseconds collective_timeout);

/// A node of a group, as messages name it.
struct NodeName {
  int node_rank = 0;
  std::string host;
  int first_rank = 0;
  int ranks = 1;
};

struct LostNode {
  FailureRecord record;
  int ranks = 0;  ///< its ranks, from record.rank
};

/// The record of a node whose agent's connection to the store was "closed" or "silent" for `silence`.
[[nodiscard]] LostNode lost_node(const NodeName& node, const std::string& why, std::chrono::milliseconds silence);

/// Node 0 as the other agents see it when its store is gone. `why`: "closed" or "silent".
[[nodiscard]] LostNode lost_node_zero(const StoreAddress& address, const std::string& why,
                                      std::chrono::milliseconds silence);

/// The cause among a rank's failure and a lost node. Where a node is lost, ranks elsewhere fail with timeouts, closed
/// connections or errors of their own libraries: the node is to blame, unless a rank of that node, or one that failed
/// well before, had published an error of its own. `claim`: the first failure that a rank or its agent has published.
[[nodiscard]] std::optional<FailureRecord> first_cause(const std::optional<FailureRecord>& claim,
                                                       const std::optional<LostNode>& lost,
                                                       std::chrono::milliseconds silence);

}  // namespace lockstep::launch
