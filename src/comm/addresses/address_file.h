// SPDX-License-Identifier: Apache-2.0
// The file of `--dist_url file://`: rank 0 writes where its store is and the token that opens it, the others read it.
// It is this user's alone from its first moment, and what is not is no word of rank 0.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "lockstep/base/result.h"
#include "lockstep/store/store.h"

namespace lockstep::comm {

/// Writes the file whole or not at all, with mode 0600 whatever the umask says. Throws: IoError.
void publish_address(const std::filesystem::path& file, const StoreAddress& address);

/// Returns what rank 0 has written, or why it cannot be used: it is missing or torn, or another user wrote it or could
/// write it.
[[nodiscard]] Result<StoreAddress> read_address(const std::filesystem::path& file);

/// Parses the file's text.
[[nodiscard]] Result<StoreAddress> parse_address(std::string_view text);

}  // namespace lockstep::comm
