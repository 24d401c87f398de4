// SPDX-License-Identifier: Apache-2.0
// `lockstep bench startup`: how long a group of ranks takes from the command to its first finished training step.
#pragma once

#include <string>
#include <vector>

namespace lockstep::apps {

/// Starts `lockstep run` with `processes` ranks of `worker` again and again, and prints the median. `arguments`: those
/// behind "startup". Returns: the exit code. Throws: UsageError; PeerError where a run fails.
[[nodiscard]] int bench_startup(const std::string& worker, int processes, std::vector<std::string> arguments);

}  // namespace lockstep::apps
