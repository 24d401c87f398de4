// SPDX-License-Identifier: Apache-2.0
// The verbs that compute: `lockstep`, which starts fast without libtorch, launches one or more processes of
// lockstep-worker, from the same folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::apps {

/// Takes `--name VALUE` or `--name=VALUE` (with '-' or '_') out of `arguments`; the last occurrence wins. Arguments
/// after "--" are kept. Throws: UsageError if the value is missing or empty.
[[nodiscard]] std::optional<std::string> take_option(std::vector<std::string>& arguments, const std::string& name);

/// `lockstep train`: runs ranks of lockstep-worker under the agent, with their logs in the run folder.
int cmd_train(int argc, char** argv);

/// Any other verb that computes (argv[0]): runs one process, or --nproc-per-node ranks.
int cmd_worker(int argc, char** argv);

/// `lockstep bench startup`: measures how long a group of ranks takes from the command to its first completed training
/// step. Starts `lockstep run` with `processes` ranks of `worker` repeatedly, and prints the median. `arguments`: the
/// arguments after "startup". Returns the exit code. Throws: UsageError; PeerError if a run fails.
[[nodiscard]] int bench_startup(const std::string& worker, int processes, std::vector<std::string> arguments);

}  // namespace lockstep::apps
