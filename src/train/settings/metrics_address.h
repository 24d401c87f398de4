// SPDX-License-Identifier: Apache-2.0
// Reads the setting metrics_address.
#pragma once

#include <string>

namespace lockstep::train {

/// The server's address.
struct ServerAddress {
  std::string host = "127.0.0.1";
  int port = 0;  ///< 0 means any free port
};

/// Returns the address in "9100", "host:9100" or "[::1]:9100"; the default host is loopback. Throws: UsageError for
/// other forms.
[[nodiscard]] ServerAddress parse_address(const std::string& text);

}  // namespace lockstep::train
