// SPDX-License-Identifier: Apache-2.0
// The agent: starts the ranks of one node, watches them and ends them all when one fails. Free of libtorch.
#pragma once

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep {

/// How the console shows the ranks' output. The log files always hold everything.
enum class ConsoleStyle {
  kPrefix,   ///< every line of every rank, after "[<rank>]: "
  kMainRaw,  ///< rank 0 unchanged (on a terminal if the agent has one); of the other ranks stderr only, after
             ///< "[<rank>]: "
};

/// Streams of ranks, as torchrun counts them: 0 none, 1 stdout, 2 stderr, 3 both.
struct StreamsByRank {
  int others = 0;                   ///< streams of ranks that `by_rank` does not have
  std::map<int, int> by_rank = {};  ///< by local rank
};

/// The part of the ranks' output that reaches the console; the log files hold everything.
struct ConsoleChoice {
  StreamsByRank redirects = {};        ///< these go to the log files only
  StreamsByRank tee = {};              ///< but these reach the console, too
  std::vector<int> local_ranks = {};   ///< only of these; empty: of all
  std::string prefix = "[${rank}]: ";  ///< comes before each line, with ${role_name}, ${local_rank} and ${rank}
};

/// The key, in a round's part of the store, of the number of replicas of the program's run. Each rank needs one: a
/// group of a range of nodes takes in no node that would leave a rank without a replica. A program without the key may
/// have any number of ranks.
inline constexpr const char* kReplicasKey = "lockstep/train/replicas";

/// When a group of a range of nodes takes in one more: it has to stop its ranks and start them again for that.
enum class TakeIn {
  kAtCheckpoint,  ///< after the program's next checkpoint; if it counts none, 30 s after its start at the earliest
  kAtOnce,        ///< as soon as the node is there
};

/// The settings of an agent: its program, its meeting point, how failures end, and its output.
struct AgentOptions {
  // The program.
  std::vector<std::string> command;  ///< program (looked up in PATH) and its arguments
  int processes = 1;                 ///< ranks on this node
  std::string why_processes = {};    ///< why that many, for a note once the program was found; empty: no note
  int nodes = 1;                     ///< nodes of the job, or the most of a range
  int min_nodes = 0;                 ///< the least of a range; 0: nodes. In a range nodes may be lost, leave and join
  int node_rank = 0;                 ///< -1, in a range: any; the agent that can listen at master_addr serves the store
  std::vector<std::pair<std::string, std::string>> environment = {};  ///< variables for the workers, in place of
                                                                      ///< inherited ones

  // The meeting point. One node: port 0 is any free port. Several: the store of node 0 listens there.
  std::string master_addr = "127.0.0.1";  ///< the host of node 0
  std::uint16_t master_port = 0;          ///< the port at which node 0's store listens; 0: any free port
  std::string token = {};   ///< several nodes need a secret to meet; empty: LOCKSTEP_TOKEN, which they then need
  std::string run_id = {};  ///< the run's name, not secret, the same on every node; empty: "none", or random on one
                            ///< node
  std::string role = "default";     ///< ROLE_NAME of the ranks
  bool virtual_local_rank = false;  ///< each rank sees LOCAL_RANK 0 and one GPU, that of its real local rank

  // How failures end.
  int max_restarts = 0;                        ///< how often a failed group may start again
  std::chrono::milliseconds last_call{30000};  ///< how long a range that has its least number of nodes waits for more
  TakeIn take_in = TakeIn::kAtCheckpoint;      ///< when a node that joins is taken in
  /// If ranks may start again, as many more processes wait with their libraries loaded. Only for Lockstep programs.
  bool use_standby = true;
  std::chrono::milliseconds shutdown_timeout{10000};  ///< time between SIGTERM and SIGKILL
  /// The signals that this process catches and passes on to the ranks; others act on it as on any process.
  std::vector<int> signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

  // Output and logs.
  std::filesystem::path log_dir = {};            ///< empty: a temporary folder, removed when the run succeeds
  ConsoleStyle console = ConsoleStyle::kPrefix;  ///< how rank 0's output is shown
  ConsoleChoice shown = {};                      ///< the part of the ranks' output that is shown
  /// false: if the first failure is another node's, only that node's agent reports it, on the same console.
  bool reports_other_nodes = true;
  bool keeps_logs = true;  ///< false: log_dir is empty, and the temporary folder is removed after a failure, too
};

/// Returns true if this machine can listen at `host` and `port` now: an agent there can serve the store.
[[nodiscard]] bool can_listen(const std::string& host, std::uint16_t port);

/// Returns a port of `host` that was free a moment ago. Throws: UsageError if `host` is not of this machine.
[[nodiscard]] std::uint16_t free_port(const std::string& host);

/// Returns the note on the number of threads of `processes` ranks, for an environment that does not set it.
[[nodiscard]] std::string threads_note(int processes);

/// Starts the workers of this node, waits for their end and returns the exit code: 0, the code of the first failure, or
/// 128 + n for signal n. No process that the workers started outlives the call, or this process if it is killed.
///
/// Blocks:      until all workers have ended. Call it from one thread, which outlives it; SIGINT, SIGTERM and SIGHUP to
///              this process stop the workers.
/// Thread-safe: no; one call at a time.
/// Throws:      UsageError if the program is not found, the port is busy or several nodes have no token, before any
///              worker starts; IoError if log files or processes cannot be created; TimeoutError if node 0 does not
///              answer.
/// Example:     return run_agent({.command = {"./train"}, .processes = 2});
[[nodiscard]] int run_agent(const AgentOptions& options);

}  // namespace lockstep

#pragma GCC visibility pop
