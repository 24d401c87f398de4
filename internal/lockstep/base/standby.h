// SPDX-License-Identifier: Apache-2.0
// A process that has loaded its libraries and waits, before main, to become a rank: when ranks have to start again, the
// seconds that libtorch takes to load are already over. The launcher starts it, with LOCKSTEP_STANDBY in its
// environment.
#pragma once

#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::standby {

/// The number of the descriptor on which a standby reads its environment.
inline constexpr const char* kVariable = "LOCKSTEP_STANDBY";
/// The store's keys, with the rank behind, of the process ids of ranks whose program can stand by.
inline constexpr const char* kKey = "lockstep/standby/";

/// Returns what the launcher sends for a list of NAME=VALUE: each with a zero byte behind it, and one more at the end.
[[nodiscard]] std::string to_message(const std::vector<std::string>& environment);

/// Reads a message from the descriptor that LOCKSTEP_STANDBY names and makes it this process's environment; leaves the
/// process with 0 where the launcher closes the descriptor without a whole message. Does nothing where the variable is
/// unset. Called once, before main and before there are threads.
void wait_where_asked() noexcept;

}  // namespace lockstep::standby

#pragma GCC visibility pop
