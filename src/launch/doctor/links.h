// SPDX-License-Identifier: Apache-2.0
// Who measures with whom, and when. Pure.
#pragma once

#include <vector>

namespace lockstep::launch {

/// Every two of `count` hosts meet in one of rounds_of(count) rounds, and nobody has two partners in a round.
[[nodiscard]] int rounds_of(int count);

/// Returns the partner of `place` in a round; -1 where it pauses.
[[nodiscard]] int partner_of(int place, int round, int count);

/// Returns the first rank of each node, in order, where `nodes` has each rank's node.
[[nodiscard]] std::vector<int> first_ranks(const std::vector<int>& nodes);

}  // namespace lockstep::launch
