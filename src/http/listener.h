// SPDX-License-Identifier: Apache-2.0
// The socket on which a server listens.
#pragma once

#include <string>

#include "lockstep/base/file_system.h"

namespace lockstep::http {

/// Returns a listening socket. No other process shares its port. Throws: UsageError, with `next_step`, where the port
/// is taken or the address is not this machine's.
[[nodiscard]] UniqueFd listen_at(const std::string& host, int port, const std::string& next_step);

/// Returns the port of a listening socket.
[[nodiscard]] int port_of(int socket);

}  // namespace lockstep::http
