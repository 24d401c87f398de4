// SPDX-License-Identifier: Apache-2.0
// Finds the process that holds a port of this machine, for the error message when the port is in use.
#pragma once

#include <cstdint>
#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// Returns the process that listens on a TCP port of this machine, if this user may see it: "lockstep (pid 4711)", "a
/// process of user 1000"; empty if none is visible. Reads /proc.
[[nodiscard]] std::string port_holder(std::uint16_t port);

}  // namespace lockstep

#pragma GCC visibility pop
