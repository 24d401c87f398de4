// SPDX-License-Identifier: Apache-2.0
// Divides the nodes of a group into members of a round and waiting nodes. All functions are pure.
#pragma once

#include <string>
#include <vector>

#include "launch/nodes/group.h"

namespace lockstep::launch {

/// Pointers to the nodes of a state, which must not change while these are in use.
using Nodes = std::vector<const GroupNode*>;

[[nodiscard]] Nodes nodes_in(const GroupState& state, GroupNode::Phase phase);

/// Returns the nodes whose ranks are running or have ended.
[[nodiscard]] Nodes nodes_of_round(const GroupState& state);

[[nodiscard]] int ranks_of(const Nodes& nodes);

/// Returns the waiting nodes that form the next round, in the order of their ranks. Their number is limited by --nnodes
/// and, in an elastic job, by the run's replicas. If there are too few replicas for the minimum number of nodes, only
/// --nnodes limits the number, and the ranks then report the error.
[[nodiscard]] Nodes members_of_next_round(const GroupState& state, const GroupOptions& options);

/// Returns the waiting nodes of an elastic job for which the running round has places and replicas.
[[nodiscard]] Nodes joiners_of(const GroupState& state, const GroupOptions& options);

/// Returns the maximum number of ranks of a job that starts with `members`. Each node that may still join is assumed to
/// have as many ranks as the largest node.
[[nodiscard]] int most_ranks(const Nodes& members, const GroupOptions& options);

/// Returns the minimum number of ranks with which an elastic job of these members can continue; 0 if the job is not
/// elastic.
[[nodiscard]] int fewest_ranks(const Nodes& members, const GroupOptions& options);

/// Returns true if this round has more ranks than the run has replicas, and some of its nodes can continue on their
/// own.
[[nodiscard]] bool has_idle_ranks(const GroupState& state, const GroupOptions& options);

/// Returns why a node of an elastic job is waiting while others train.
[[nodiscard]] std::string held_text(const GroupNode& node, const GroupState& state, const GroupOptions& options);

/// Returns the nodes that an idle group is waiting for: "nodes 1, 2 of 3", "1 more node (2 of 3 to 4 are here)".
[[nodiscard]] std::string missing_text(const GroupState& state, const GroupOptions& options);

}  // namespace lockstep::launch
