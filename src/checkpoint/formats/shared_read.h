// SPDX-License-Identifier: Apache-2.0
// A large file read by two threads: a hash needs the bytes in order, but the disk need not deliver them so.
#pragma once

#include <cstddef>

#include "checkpoint/formats/read_file.h"

namespace lockstep::checkpoint {

inline constexpr std::size_t kSharedReadBytes = 16U << 20U;  ///< from this size on a second thread pays

/// Fills `bytes` from `file` and returns the hash. One thread reads from the front. The calling thread hashes finished
/// blocks, and reads from the back while there are none.
/// Throws: the exceptions of reading.
[[nodiscard]] FileDigest read_with_two_threads(ReadableFile& file, const FileBytes& bytes);

}  // namespace lockstep::checkpoint
