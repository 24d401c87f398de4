// SPDX-License-Identifier: Apache-2.0
// The file that `--dist_url file://` names: rank 0 writes the address of its store and the token that opens it, and the
// other ranks read them. Only this user can access the file; a file that another user can access is rejected.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "lockstep/base/result.h"
#include "lockstep/store/store.h"

namespace lockstep::comm {

/// Writes the file whole or not at all, with mode 0600, independent of the umask. Throws: IoError.
void publish_address(const std::filesystem::path& file, const StoreAddress& address);

/// Returns the address from rank 0, or the reason why the file cannot be used: it is missing or torn, or another user
/// wrote it or can access it.
[[nodiscard]] Result<StoreAddress> read_address(const std::filesystem::path& file);

/// Parses the file's text.
[[nodiscard]] Result<StoreAddress> parse_address(std::string_view text);

}  // namespace lockstep::comm
