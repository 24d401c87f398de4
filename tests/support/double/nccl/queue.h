// SPDX-License-Identifier: Apache-2.0
// How a group of calls gets onto its stream: that of a make-believe GPU, or a real one's.
#pragma once

#include <functional>
#include <vector>

#include "operation.h"

namespace lockstep::testing::nccl_double {

/// The calls, over memory that the host may read and write.
using Calls = std::function<void(const std::vector<Operation>&)>;

/// Puts the group behind what its stream has. `work` is called in the stream's order, in another thread; once for each
/// replay where the stream is being recorded.
void enqueue(const std::vector<Operation>& group, const Place& place, Calls work);

/// Whether the stream is being recorded: then enqueue() does not call `work`, each replay does.
[[nodiscard]] bool is_recorded(nccl::Stream stream);

/// Whether a recorded `work` goes with its graph; else it is kept as long as the process lives.
[[nodiscard]] bool forgets_recordings();

}  // namespace lockstep::testing::nccl_double
