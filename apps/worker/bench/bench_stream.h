// SPDX-License-Identifier: Apache-2.0
// A kernel with the memory traffic of an AdamW step and nothing else, for comparison with the step's time.
#pragma once

#include <cstdint>

namespace lockstep::worker {

/// Four arrays that do not overlap.
struct StreamMemory {
  float* parameter;
  const float* grad;
  float* first;
  float* second;
};

/// Reads all four and adds `grad` to the other three: 28 bytes of traffic per element.
void stream_4r3w(const StreamMemory& memory, std::int64_t count);

}  // namespace lockstep::worker
