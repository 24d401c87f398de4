// SPDX-License-Identifier: Apache-2.0
// Backwards that do not fit their options, in words. Each ends the group: other ranks may have all that they wait for
// from each other, but not what they wait for from this one.
#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "parallel/reducer/buckets.h"
#include "parallel/reducer/replica_backward.h"

namespace lockstep::parallel {

/// The place where a backward failed.
struct FaultyBackward {
  ProcessGroup& group;
  const TrainedParameters& parameters;
  ReplicaBackward& replica;
};

/// Reports that a gradient came through the inner module, not through the wrapper. Throws: UsageError.
[[noreturn]] void throw_bypassed(const FaultyBackward& fault);
/// Reports that a parameter got a second gradient, or one that no output of forward leads to. Throws: UsageError.
[[noreturn]] void throw_two_gradients(const FaultyBackward& fault, std::size_t index);
/// Reports that a step of a static graph differs from the first one. Throws: UsageError.
[[noreturn]] void throw_changed_graph(const FaultyBackward& fault, std::size_t index);
/// Reports that parameters got no gradient. Throws: UsageError.
[[noreturn]] void throw_unused(const FaultyBackward& fault, const std::vector<std::size_t>& missing);

}  // namespace lockstep::parallel
