// SPDX-License-Identifier: Apache-2.0
// One try to bring what a file lacks, by libcurl.
#pragma once

#include <string>

#include "checkpoint/fetch/fetch_url.h"
#include "checkpoint/fetch/partial_file.h"
#include "lockstep/checkpoint/fetch.h"

namespace lockstep::checkpoint {

/// How a try ended that another may follow.
struct TransferEnd {
  enum class Kind { kWhole, kBroken, kSilent, kSlow };
  Kind kind = Kind::kWhole;
  std::string cause = {};  ///< of one that is not whole
};

/// Asks for what comes after `part`'s bytes, or for all where the server has another content by now.
/// Throws: DataError for what another try does not change, IoError for the disk or a certificate, and what
/// options.progress throws.
[[nodiscard]] TransferEnd transfer(const FetchUrl& url, const FetchOptions& options, PartialFile& part);

}  // namespace lockstep::checkpoint
