// SPDX-License-Identifier: Apache-2.0
// The agent: starts the ranks of one node, watches them and ends them all when one fails. Free of libtorch.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep {

/// How the console shows the ranks' output. The log files always hold everything.
enum class ConsoleStyle {
  kPrefix,   ///< every line of every rank, after "[<rank>]: "
  kMainRaw,  ///< rank 0 unchanged (it has a terminal where the agent has one); of the other ranks stderr only, after
             ///< "[<rank>]: "
};

struct AgentOptions {
  // What runs.
  std::vector<std::string> command;  ///< program (looked up in PATH) and its arguments
  int processes = 1;                 ///< ranks on this node
  int nodes = 1;
  int node_rank = 0;
  std::vector<std::pair<std::string, std::string>> environment = {};  ///< set for the workers; it wins over inherited
                                                                      ///< variables

  // Where the nodes meet. One node: port 0 is any free port. Several: the store of node 0 listens there.
  std::string master_addr = "127.0.0.1";
  std::uint16_t master_port = 0;
  std::string token = {};   ///< several nodes need a secret to meet; empty: LOCKSTEP_TOKEN, which they then need
  std::string run_id = {};  ///< the run's name, not secret, the same on every node; empty: "none", or random on one
                            ///< node
  std::string role = "default";

  // How failures end.
  int max_restarts = 0;
  std::chrono::milliseconds shutdown_timeout{10000};  ///< time between SIGTERM and SIGKILL

  // What is shown and kept.
  std::filesystem::path log_dir = {};  ///< empty: a temporary folder, removed when the run succeeds
  ConsoleStyle console = ConsoleStyle::kPrefix;
};

/// Starts the workers of this node, waits for their end and returns the exit code: 0, the code of the first failure, or
/// 128 + n for signal n. No process that the workers started outlives the call, or this process if it is killed.
///
/// Blocks:      until all workers have ended. Call it from one thread, which outlives it; SIGINT, SIGTERM and SIGHUP to
///              this process stop the workers.
/// Thread-safe: no; one call at a time.
/// Throws:      UsageError where the program is not found, the port is busy or several nodes have no token, before any
///              worker starts; IoError where log files or processes cannot be created; TimeoutError where node 0 does
///              not answer.
/// Example:     return run_agent({.command = {"./train"}, .processes = 2});
[[nodiscard]] int run_agent(const AgentOptions& options);

}  // namespace lockstep

#pragma GCC visibility pop
