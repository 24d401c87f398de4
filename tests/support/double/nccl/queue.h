// SPDX-License-Identifier: Apache-2.0
// Puts a group of calls on its stream, on a fake or a real GPU.
#pragma once

#include <functional>
#include <vector>

#include "operation.h"

namespace lockstep::testing::nccl_double {

/// A function that runs the calls, over memory that the host may read and write.
using Calls = std::function<void(const std::vector<Operation>&)>;

/// Adds the group after the stream's current work. Another thread calls `work` in the stream's order; if the stream is
/// being recorded, it calls `work` once for each replay.
void enqueue(const std::vector<Operation>& group, const Place& place, Calls work);

/// True if the stream is being recorded: each replay then calls `work`.
[[nodiscard]] bool is_recorded(nccl::Stream stream);

/// True if a recorded `work` is dropped with its graph; otherwise it is kept for the life of the process.
[[nodiscard]] bool forgets_recordings();

}  // namespace lockstep::testing::nccl_double
