// SPDX-License-Identifier: Apache-2.0
// A standby: a process that has loaded its libraries and waits, before main, to become a rank. When ranks have to start
// again, the seconds that libtorch takes to load are already over. The launcher starts it, with LOCKSTEP_STANDBY in its
// environment.
#pragma once

#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::standby {

/// The variable with the descriptor from which a standby reads its environment.
inline constexpr const char* kVariable = "LOCKSTEP_STANDBY";
/// The prefix of the store's keys, completed by the rank, of the process ids of ranks whose program can become a
/// standby.
inline constexpr const char* kKey = "lockstep/standby/";

/// Returns the launcher's message for a list of NAME=VALUE: each followed by a zero byte, and one more at the end.
[[nodiscard]] std::string to_message(const std::vector<std::string>& environment);

/// Reads a message from the descriptor that LOCKSTEP_STANDBY names and makes it this process's environment. If the
/// launcher closes the descriptor without a whole message, exits with 0. Does nothing if the variable is unset. Called
/// once, before main and before there are threads.
void wait_if_asked() noexcept;

}  // namespace lockstep::standby

#pragma GCC visibility pop
