// SPDX-License-Identifier: Apache-2.0
// After a failure over sockets: which rank is to blame. A rank that gives up closes its connections too, so that the
// end of a connection alone does not tell the first who died from those who only followed.
#pragma once

#include <map>
#include <vector>

#include "comm/core/failure.h"

namespace lockstep::comm {

/// What the ranks said after a failure: for each one that answered, the rank that it could not reach.
using RollCall = std::map<int, int>;

/// Reports `suspect` under a key of the group that does not depend on the operation (ranks may fail in different ones),
/// and collects what the others report. Waits for a suspected rank a moment, for the others longer: they may still be
/// on their way into their own failure. Then stays until those present know as much: this rank may serve the store.
/// Never throws; empty where the store is gone.
/// Blocks: at most some seconds.
[[nodiscard]] RollCall call_roll(const World& world, int suspect) noexcept;

/// The speakers of a world, and those whom somebody could not reach, that did not answer.
[[nodiscard]] std::vector<int> absent_ranks(const RollCall& answers, const World& world);

/// The rank to name: one that did not answer, and of these one that somebody could not reach; else `suspect`.
[[nodiscard]] int blamed_rank(const RollCall& answers, int suspect, const World& world);

}  // namespace lockstep::comm
