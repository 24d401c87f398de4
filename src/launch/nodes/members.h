// SPDX-License-Identifier: Apache-2.0
// Divides the nodes of a group into those that have a place and work in a round, and those that wait. Pure.
#pragma once

#include <string>
#include <vector>

#include "launch/nodes/group.h"

namespace lockstep::launch {

/// Pointers into a state's nodes, which must not change meanwhile.
using Nodes = std::vector<const GroupNode*>;

[[nodiscard]] Nodes nodes_in(const GroupState& state, GroupNode::Phase phase);

/// Those that run or have ended.
[[nodiscard]] Nodes nodes_of_round(const GroupState& state);

[[nodiscard]] int ranks_of(const Nodes& nodes);

/// Returns the nodes of the next round among those that wait, in the order of their ranks: no more than --nnodes and,
/// in a range, than the run's replicas allow. If the replicas are too few for the least number of nodes, as many as
/// --nnodes allows: the ranks then report the fault.
[[nodiscard]] Nodes members_of_next_round(const GroupState& state, const GroupOptions& options);

/// Returns the nodes of a range that wait, and for which the round that runs has a place and work.
[[nodiscard]] Nodes joiners_of(const GroupState& state, const GroupOptions& options);

/// Returns the most ranks of a job that begins with `members`. Nodes that may still come count as those with the most
/// ranks.
[[nodiscard]] int most_ranks(const Nodes& members, const GroupOptions& options);

/// Returns the fewest ranks with which a range of these members can go on; 0: it is no range.
[[nodiscard]] int fewest_ranks(const Nodes& members, const GroupOptions& options);

/// The ranks of this round are more than the run's replicas, and some of its nodes can go on without the others.
[[nodiscard]] bool has_idle_ranks(const GroupState& state, const GroupOptions& options);

/// Returns the words for a node of a range on why it waits while others train.
[[nodiscard]] std::string held_text(const GroupNode& node, const GroupState& state, const GroupOptions& options);

}  // namespace lockstep::launch
