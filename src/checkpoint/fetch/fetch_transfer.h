// SPDX-License-Identifier: Apache-2.0
// Makes one attempt to fetch the missing bytes of a file, using libcurl.
#pragma once

#include <string>

#include "checkpoint/fetch/fetch_url.h"
#include "checkpoint/fetch/partial_file.h"
#include "lockstep/checkpoint/fetch.h"

namespace lockstep::checkpoint {

/// The result of an attempt; another attempt may follow.
struct TransferEnd {
  enum class Kind { kWhole, kBroken, kSilent, kSlow };
  Kind kind = Kind::kWhole;
  std::string cause = {};  ///< the reason if the kind is not kWhole
};

/// Requests the bytes that follow `part`, or everything if the server's content has changed.
/// Throws: DataError for an error that a retry would not fix, IoError for the disk or a certificate, and the exceptions
/// of options.progress.
[[nodiscard]] TransferEnd transfer(const FetchUrl& url, const FetchOptions& options, PartialFile& part);

}  // namespace lockstep::checkpoint
