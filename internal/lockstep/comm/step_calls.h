// SPDX-License-Identifier: Apache-2.0
// Collectives inside a step that is recorded as a CUDA graph.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/comm/process_group.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The calls to a group during a step.
struct StepCalls {
  /// The first operation that the host takes part in, such as "all_reduce(max) of 12 int32"; empty: none. A recording
  /// would repeat its first result in every replay.
  std::string on_host = {};
  std::uint64_t recorded = 0;  ///< a digest of the recorded collectives, in order; 0: none was recorded
};

/// Runs `work`, and returns its calls to `group`. While the caller's stream is recorded, a collective of GPU tensors
/// that NCCL carries goes into the recording: hosts do not compare calls for it, and Work::is_done() is true at once.
/// Lifetime: a recording with collectives must end before its group does.
[[nodiscard]] StepCalls calls_of(ProcessGroup& group, const std::function<void()>& work);

/// Informs calls_of() that the host makes a decision in the step, which a recording would repeat in every replay.
void note_on_host(ProcessGroup& group, const std::string& call);

/// Runs `launch`, which puts a recorded step on the current stream. The ranks' hosts synchronize once for all of its
/// collectives and compare `recorded`; errors name late and missing ranks as they do for a single collective.
/// Collective: yes. Blocks: no. Stream: the current one. Throws: the group's failure, UsageError for a group whose GPU
/// tensors go through host memory.
void replay_step(ProcessGroup& group, std::uint64_t recorded, const std::function<void()>& launch);

}  // namespace lockstep

#pragma GCC visibility pop
