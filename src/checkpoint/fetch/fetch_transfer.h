// SPDX-License-Identifier: Apache-2.0
// One try to bring what a file lacks, by libcurl.
#pragma once

#include <string>

#include "checkpoint/fetch/fetch_url.h"
#include "checkpoint/fetch/partial_file.h"
#include "lockstep/checkpoint/fetch.h"

namespace lockstep::checkpoint {

/// The result of a try, after which another may follow.
struct TransferEnd {
  enum class Kind { kWhole, kBroken, kSilent, kSlow };
  Kind kind = Kind::kWhole;
  std::string cause = {};  ///< the reason where it is not whole
};

/// Requests the bytes after those of `part`, or everything where the server has other content by now.
/// Throws: DataError for an error that another try would not change, IoError for the disk or a certificate, and what
///         options.progress throws.
[[nodiscard]] TransferEnd transfer(const FetchUrl& url, const FetchOptions& options, PartialFile& part);

}  // namespace lockstep::checkpoint
