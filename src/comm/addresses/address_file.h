// SPDX-License-Identifier: Apache-2.0
// The file of `--dist_url file://`: rank 0 writes the address of its store and the token that opens it, and the others
// read them. From its first moment only this user can access it; any other file does not count as rank 0's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "lockstep/base/result.h"
#include "lockstep/store/store.h"

namespace lockstep::comm {

/// Writes the file whole or not at all, with mode 0600 whatever the umask. Throws: IoError.
void publish_address(const std::filesystem::path& file, const StoreAddress& address);

/// Returns the address from rank 0, or the reason why the file cannot be used: it is missing or torn, or another user
/// wrote it or could write it.
[[nodiscard]] Result<StoreAddress> read_address(const std::filesystem::path& file);

/// Parses the file's text.
[[nodiscard]] Result<StoreAddress> parse_address(std::string_view text);

}  // namespace lockstep::comm
