// SPDX-License-Identifier: Apache-2.0
// What all commands share that write maps: PNG files, empty folders, threads. No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "lockstep/data/decode.h"

namespace lockstep::segmentation {

/// Called now and then with how many files of how many are done; one call at a time, from any thread.
using WriteProgress = std::function<void(std::int64_t done, std::int64_t count)>;

/// Calls work(index) for 0 .. count - 1, on `threads` threads (0: one per processor), in any order. The first error
/// stops the others and is thrown.
void run_indices(std::int64_t count, std::int64_t threads, const std::function<void(std::int64_t)>& work,
                 const WriteProgress& progress = nullptr);

/// Writes one or three channels; the same pixels give the same bytes. Throws: IoError.
void write_map(const Image& image, const std::filesystem::path& file);

/// Makes the folder. Throws: UsageError where something stands in it already, or it is no folder.
void make_empty_folder(const std::filesystem::path& folder);

}  // namespace lockstep::segmentation
