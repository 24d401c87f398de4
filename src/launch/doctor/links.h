// SPDX-License-Identifier: Apache-2.0
// The schedule by which pairs of hosts measure their links, round by round. All functions are pure.
#pragma once

#include <vector>

namespace lockstep::launch {

/// Returns the number of rounds for `count` hosts: each pair meets once, and no host has two partners in a round.
[[nodiscard]] int rounds_of(int count);

/// Returns the partner of host `place` in a round; -1 if it has none.
[[nodiscard]] int partner_of(int place, int round, int count);

/// Returns the first rank of each node, in order; `nodes` holds the node of each rank.
[[nodiscard]] std::vector<int> first_ranks(const std::vector<int>& nodes);

}  // namespace lockstep::launch
