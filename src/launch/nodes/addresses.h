// SPDX-License-Identifier: Apache-2.0
// Ports and addresses of this machine, for a group of nodes.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::launch {

/// Returns false if no process can listen there right now: the port is taken, or the address does not belong to this
/// machine.
[[nodiscard]] bool is_free(const std::string& host, std::uint16_t port);

/// Returns true if this machine can listen on `host`.
[[nodiscard]] bool is_own(const std::string& host);

/// Returns a port that was free a moment ago, outside the range from which the kernel assigns ephemeral ports.
/// Throws: UsageError if `host` is not an address of this machine.
[[nodiscard]] std::uint16_t find_free_port(const std::string& host);

[[nodiscard]] bool names_loopback(const std::string& host);

/// Warns if `host` is a name that this machine resolves to a loopback address.
void warn_of_loopback(const std::string& host);

/// Returns the system's name of this host.
[[nodiscard]] std::string host_name();

/// Returns LOCKSTEP_HOST_ID, or the system's name of this host.
[[nodiscard]] std::string host_id();

}  // namespace lockstep::launch
