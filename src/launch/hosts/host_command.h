// SPDX-License-Identifier: Apache-2.0
// The commands that start a launcher on a host. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "lockstep/launch/hosts.h"

namespace lockstep::launch {

/// Returns the arguments quoted for a shell, which reads them unchanged.
[[nodiscard]] std::string shell_text(const std::vector<std::string>& words);

/// Returns the launcher's first input, for obey_input(): the token, the environment as lines NAME=VALUE, and an empty
/// line. They are not passed on the command line, where other users of a host could read them.
[[nodiscard]] std::string first_orders(const HostsOptions& options);

/// Returns the command for a shell on the host: it changes to the folder and becomes the launcher.
[[nodiscard]] std::string shell_command(const HostsOptions& options, const HostLauncher& launcher);

/// Returns the program and arguments to start on this machine: ssh, or a shell if the host `is_here`.
[[nodiscard]] std::vector<std::string> start_command(const HostsOptions& options, const HostLauncher& launcher,
                                                     bool is_here);

}  // namespace lockstep::launch
