// SPDX-License-Identifier: Apache-2.0
// The commands that start a launcher on a host. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "lockstep/launch/hosts.h"

namespace lockstep::launch {

/// The words in the form in which a shell reads them as they are.
[[nodiscard]] std::string shell_text(const std::vector<std::string>& words);

/// The first input of the launcher, for obey_input(): the token, the environment, one NAME=VALUE a line, and an empty
/// line. Other users of a host can read a command line.
[[nodiscard]] std::string first_orders(const HostsOptions& options);

/// The command for a shell on the host: it changes to the folder and becomes the launcher.
[[nodiscard]] std::string shell_command(const HostsOptions& options, const HostLauncher& launcher);

/// The program and arguments that this machine starts: ssh, or a shell for a host that `is_here`.
[[nodiscard]] std::vector<std::string> start_command(const HostsOptions& options, const HostLauncher& launcher,
                                                     bool is_here);

}  // namespace lockstep::launch
