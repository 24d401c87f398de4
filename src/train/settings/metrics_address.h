// SPDX-License-Identifier: Apache-2.0
// Reads the setting metrics_address.
#pragma once

#include <string>

namespace lockstep::train {

/// The address of a page.
struct ServerAddress {
  std::string host = "127.0.0.1";
  int port = 0;  ///< 0: any that is free
};

/// Returns the address in "9100", "host:9100" or "[::1]:9100"; a bare port is one of loopback.
/// Throws: UsageError if it is none of these.
[[nodiscard]] ServerAddress parse_address(const std::string& text);

}  // namespace lockstep::train
