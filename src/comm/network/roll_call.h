// SPDX-License-Identifier: Apache-2.0
// Finds the rank to blame after a failure over sockets. A rank that gives up also closes its connections, so a closed
// connection by itself does not distinguish the first dead rank from ranks that gave up after it.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "comm/core/failure.h"

namespace lockstep::comm {

/// The answers of the ranks after a failure: for each rank that answered, the rank that it could not reach.
using RollCall = std::map<int, int>;

/// How long a suspected rank may take to answer after a connection has ended.
inline constexpr std::chrono::milliseconds kSuspectLimit{1000};
/// Returns the limit after the collective's `timeout` has passed. The rank has already been silent for that long, and
/// the error should follow within another tenth of that time.
[[nodiscard]] constexpr std::chrono::milliseconds suspect_limit_after(std::chrono::milliseconds timeout) {
  return std::clamp(timeout / 20, std::chrono::milliseconds(50), kSuspectLimit);
}

/// Reports `suspect` under a key of the group that does not depend on the operation (different ranks may fail in
/// different operations), and collects the other ranks' reports. Waits `suspect_limit` for a suspected rank and longer
/// for other ranks, which may not have failed yet. Then it waits until the ranks that answered have the same reports,
/// since this rank may serve the store. Never throws; the result is empty if the store is gone. Blocks: at most a few
/// seconds.
[[nodiscard]] RollCall call_roll(const World& world, int suspect,
                                 std::chrono::milliseconds suspect_limit = kSuspectLimit) noexcept;

/// Returns the ranks that did not answer, among the world's speakers and ranks that another rank could not reach.
[[nodiscard]] std::vector<int> absent_ranks(const RollCall& answers, const World& world);

/// Returns the rank to blame: one that did not answer, preferably one that another could not reach; else `suspect`.
[[nodiscard]] int blamed_rank(const RollCall& answers, int suspect, const World& world);

}  // namespace lockstep::comm
