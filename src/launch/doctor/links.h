// SPDX-License-Identifier: Apache-2.0
// The pairs of hosts that measure a link, round by round. Pure.
#pragma once

#include <vector>

namespace lockstep::launch {

/// Each pair of `count` hosts meets in one of rounds_of(count) rounds, and no host has two partners in a round.
[[nodiscard]] int rounds_of(int count);

/// Returns the partner of `place` in a round; -1 if it pauses.
[[nodiscard]] int partner_of(int place, int round, int count);

/// Returns the first rank of each node, in order; `nodes` has each rank's node.
[[nodiscard]] std::vector<int> first_ranks(const std::vector<int>& nodes);

}  // namespace lockstep::launch
