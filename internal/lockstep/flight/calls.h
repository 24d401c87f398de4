// SPDX-License-Identifier: Apache-2.0
// Which rank called another collective than the rest, out of the flight rings. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/flight/verdict.h"

#pragma GCC visibility push(default)

namespace lockstep::flight {

/// Compares what the ranks called as the operation that failed, by its name, else by its size. Returns the rank that
/// called another collective than the rest, as a kHang and UsageError: "rank 2 called barrier as operation 12 of step
/// 77, where ranks 0, 1 called all_reduce". None: no operation has failed, the ranks of this host called the same, or
/// there is no majority (of two ranks nobody is odd).
[[nodiscard]] std::optional<FailureRecord> find_odd_call(const std::vector<RankFacts>& facts);

}  // namespace lockstep::flight

#pragma GCC visibility pop
