// SPDX-License-Identifier: Apache-2.0
// A standby: a process that has loaded its libraries and waits, before main, to become a rank. A restart then need not
// wait seconds for libtorch to load. The launcher starts a standby with LOCKSTEP_STANDBY in its environment.
#pragma once

#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::standby {

/// The variable that names the descriptor from which a standby reads its environment.
inline constexpr const char* kVariable = "LOCKSTEP_STANDBY";
/// The prefix of a store key; a rank follows it. The value is the process id of that rank, whose program can be a
/// standby.
inline constexpr const char* kKey = "lockstep/standby/";

/// Returns the launcher's message for a list of NAME=VALUE: a zero byte follows each entry, and one more ends the list.
[[nodiscard]] std::string to_message(const std::vector<std::string>& environment);

/// Reads a message from the descriptor that LOCKSTEP_STANDBY names and makes it this process's environment. If the
/// launcher closes the descriptor without a whole message, exits with 0. Does nothing if the variable is unset. Call it
/// once, before main and before there are threads.
void wait_if_asked() noexcept;

}  // namespace lockstep::standby

#pragma GCC visibility pop
