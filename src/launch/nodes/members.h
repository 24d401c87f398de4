// SPDX-License-Identifier: Apache-2.0
// Which nodes of a group have a place and work in a round, and which ones wait. Pure.
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
/// in a range, than the run's replicas allow. Where the replicas are too few for the least number of nodes, as many as
/// --nnodes allows: the ranks then say what is wrong.
[[nodiscard]] Nodes members_of_next_round(const GroupState& state, const GroupOptions& options);

/// Returns the nodes of a range that wait, and for which the round that runs has a place and work.
[[nodiscard]] Nodes joiners_of(const GroupState& state, const GroupOptions& options);

/// Returns the ranks that a job which begins with `members` may have at most. Nodes that may still come count as those
/// with the most ranks.
[[nodiscard]] int most_ranks(const Nodes& members, const GroupOptions& options);

/// Returns the fewest ranks with which a range of these members can go on; 0: it is no range.
[[nodiscard]] int fewest_ranks(const Nodes& members, const GroupOptions& options);

/// The ranks of this round are more than the run's replicas, and some of its nodes can go on without the others.
[[nodiscard]] bool has_idle_ranks(const GroupState& state, const GroupOptions& options);

/// Says to a node of a range why it waits while others train.
[[nodiscard]] std::string held_text(const GroupNode& node, const GroupState& state, const GroupOptions& options);

/// Returns for whom an idle group waits: "nodes 1, 2 of 3", "1 more node (2 of 3 to 4 are here)".
[[nodiscard]] std::string missing_text(const GroupState& state, const GroupOptions& options);

}  // namespace lockstep::launch
