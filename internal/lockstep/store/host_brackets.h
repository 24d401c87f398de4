// SPDX-License-Identifier: Apache-2.0
// IPv6 addresses in brackets, as users copy them from addresses with a port.
#pragma once

#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// Returns the host without the brackets around it: "fd00::1" for "[fd00::1]".
[[nodiscard]] inline std::string without_brackets(const std::string& host) {
  const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return has_brackets ? host.substr(1, host.size() - 2) : host;
}

}  // namespace lockstep

#pragma GCC visibility pop
