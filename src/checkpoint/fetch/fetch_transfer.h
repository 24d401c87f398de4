// SPDX-License-Identifier: Apache-2.0
// One attempt to fetch the missing bytes of a file, with libcurl.
#pragma once

#include <string>

#include "checkpoint/fetch/fetch_url.h"
#include "checkpoint/fetch/partial_file.h"
#include "lockstep/checkpoint/fetch.h"

namespace lockstep::checkpoint {

/// The result of an attempt, after which another may follow.
struct TransferEnd {
  enum class Kind { kWhole, kBroken, kSilent, kSlow };
  Kind kind = Kind::kWhole;
  std::string cause = {};  ///< the reason if it is not whole
};

/// Requests the bytes after those of `part`, or everything if the server has other content by now.
/// Throws: DataError for an error that another attempt would not change, IoError for the disk or a certificate, and the
/// exceptions of options.progress.
[[nodiscard]] TransferEnd transfer(const FetchUrl& url, const FetchOptions& options, PartialFile& part);

}  // namespace lockstep::checkpoint
