// SPDX-License-Identifier: Apache-2.0
// What commands that make sets of pictures share: a loop over their indices on several threads, and the PNG files. No
// torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "lockstep/data/picture.h"

namespace lockstep::common {

/// Called now and then with how many of how many are done; one call at a time, from any thread.
using IndexProgress = std::function<void(std::int64_t done, std::int64_t count)>;

struct IndexLoop {
  std::int64_t count = 0;
  std::int64_t threads = 0;  ///< 0: one per processor. Fewer where the system gives no more
  /// Called once on each thread; what it returns is called with the indices that the thread takes, in any order.
  std::function<std::function<void(std::int64_t index)>()> make_worker;
  IndexProgress progress = nullptr;
  std::int64_t report_every = 16;  ///< indices
};

/// Calls a worker for each of 0 .. count - 1. The first error stops the others and is thrown. Blocks: until all is
/// done.
void run_indices(const IndexLoop& loop);

/// Writes one channel or three with a fixed style; the same pixels give the same bytes. Throws: IoError.
void write_set_picture(const PixelView& pixels, const std::filesystem::path& file);

}  // namespace lockstep::common
