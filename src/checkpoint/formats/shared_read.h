// SPDX-License-Identifier: Apache-2.0
// Reads and hashes a large file with two threads: the hash needs the bytes in order, but they can be read in any order.
#pragma once

#include <cstddef>

#include "checkpoint/formats/read_file.h"

namespace lockstep::checkpoint {

inline constexpr std::size_t kSharedReadBytes =
    16U << 20U;  ///< smallest size at which a second thread makes the read faster

/// Fills `bytes` from `file` and returns the hash. One thread reads from the front. The calling thread hashes finished
/// blocks in order, and reads from the back while the next one is not finished.
/// Throws: the exceptions of ReadableFile::read().
[[nodiscard]] FileDigest read_with_two_threads(ReadableFile& file, const FileBytes& bytes);

}  // namespace lockstep::checkpoint
