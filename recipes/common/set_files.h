// SPDX-License-Identifier: Apache-2.0
// Shared by the commands that create image sets: a loop over their indices on several threads, folders, PNG files and
// image sizes. No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "lockstep/data/picture.h"

namespace lockstep::common {

/// Called periodically and at the end, with the number done and the total; one call at a time, from any thread.
using IndexProgress = std::function<void(std::int64_t done, std::int64_t count)>;

struct IndexLoop {
  std::int64_t count = 0;
  std::int64_t threads = 0;  ///< 0 means one per processor; fewer if the system cannot start that many
  /// Called once on each thread; the function it returns is called with the indices that the thread takes, in any
  /// order.
  std::function<std::function<void(std::int64_t index)>()> make_worker;
  IndexProgress progress = nullptr;
};

/// Calls a worker for each of 0 .. count - 1. The first error stops all workers and is rethrown. Blocks: yes.
void run_indices(const IndexLoop& loop);
/// The same, but with one worker shared by all threads.
void run_indices(std::int64_t count, std::int64_t threads, const std::function<void(std::int64_t index)>& work,
                 const IndexProgress& progress = nullptr);

/// Writes one or three channels with fixed PNG options; the same pixels give the same bytes. Throws: IoError.
void write_set_picture(const PixelView& pixels, const std::filesystem::path& file);
inline void write_set_picture(const Image& image, const std::filesystem::path& file) {
  write_set_picture(view_of(image), file);
}

/// Throws: UsageError if `folder` exists and is not a folder.
void refuse_file(const std::filesystem::path& folder);

/// Creates the folder. Throws: UsageError if it already contains files, or if a file with that name exists.
void make_empty_folder(const std::filesystem::path& folder);

/// The range from which the sides of each image are drawn, inclusive. Units: pixels.
struct SideRange {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

/// Reads "160" or "128-192". Throws: UsageError for anything else, or a side outside `limits`.
[[nodiscard]] SideRange parse_sides(const std::string& text, const SideRange& limits);

/// Throws: UsageError, as in "generate captcha: count is 0, must be 1 .. 100".
void require_within(std::string_view name, std::int64_t value, std::int64_t low, std::int64_t high);

}  // namespace lockstep::common
