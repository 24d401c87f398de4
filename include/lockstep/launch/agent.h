// SPDX-License-Identifier: Apache-2.0
// The agent: starts the ranks of one node, watches them, and ends all of them when one fails. Does not use libtorch.
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
  kMainRaw,  ///< rank 0's output unchanged (on a terminal if the agent has one); for the other ranks only stderr, after
             ///< "[<rank>]: "
};

/// Streams of ranks, as torchrun numbers them: 0 none, 1 stdout, 2 stderr, 3 both.
struct StreamsByRank {
  int others = 0;                   ///< streams of ranks not in `by_rank`
  std::map<int, int> by_rank = {};  ///< streams of some ranks, by local rank
};

/// The part of the ranks' output that reaches the console; the log files hold everything.
struct ConsoleChoice {
  StreamsByRank redirects = {};        ///< streams that go only to the log files
  StreamsByRank tee = {};              ///< streams that go to the log files and to the console
  std::vector<int> local_ranks = {};   ///< local ranks whose output is shown; empty: all
  std::string prefix = "[${rank}]: ";  ///< prefix of each line; ${role_name}, ${local_rank} and ${rank} are replaced
};

/// The store key, under a round's prefix, that holds the number of replicas of the program's run. Each rank needs a
/// replica: an elastic job (--nnodes MIN:MAX) does not admit a node that would leave a rank without one. A program that
/// does not set the key may have any number of ranks.
inline constexpr const char* kReplicasKey = "lockstep/train/replicas";

/// When an elastic job (--nnodes MIN:MAX) admits a joining node, which requires restarting the job's ranks.
enum class TakeIn {
  kAtCheckpoint,  ///< after the program's next checkpoint; if it does not count them, 30 s or more after its start
  kAtOnce,        ///< as soon as the node has joined
};

/// The settings of an agent: its program, its meeting point, how it handles failures, and its output.
struct AgentOptions {
  // The program.
  std::vector<std::string> command;  ///< program (looked up in PATH) and its arguments
  int processes = 1;                 ///< ranks on this node
  std::string why_processes = {};    ///< reason for that number, printed once the program is found; empty: not printed
  int nodes = 1;                     ///< nodes in the job; if the job is elastic, the maximum
  int min_nodes = 0;  ///< minimum of an elastic job, whose nodes may be lost, leave and join; 0: the job is not elastic
  int node_rank = 0;  ///< this node's number; -1 (several nodes): any; the agent at master_addr serves the store
  std::vector<std::pair<std::string, std::string>> environment = {};  ///< variables for the workers, which replace
                                                                      ///< inherited ones

  // The meeting point, where the store of node 0 listens.
  std::string master_addr = "127.0.0.1";  ///< the host of node 0
  std::uint16_t master_port = 0;          ///< the port at which node 0's store listens; 0: any free port
  std::string token = {};   ///< secret, required with several nodes; empty: LOCKSTEP_TOKEN, which must then be set
  std::string run_id = {};  ///< the run's public name, the same on every node; empty: "none", or random on a single
                            ///< node
  std::string role = "default";     ///< ROLE_NAME of the ranks
  bool virtual_local_rank = false;  ///< each rank sees LOCAL_RANK 0 and one GPU, that of its real local rank

  // How failures are handled.
  int max_restarts = 0;                        ///< how many times a failed group may be restarted
  std::chrono::milliseconds last_call{30000};  ///< how long an elastic job that has min_nodes nodes waits for more
  TakeIn take_in = TakeIn::kAtCheckpoint;      ///< when a joining node is admitted
  /// If ranks may be restarted, a standby for each rank waits with its libraries loaded. Only for Lockstep programs.
  bool use_standby = true;
  std::chrono::milliseconds shutdown_timeout{10000};  ///< time between SIGTERM and SIGKILL
  /// The signals that this process catches and passes on to the ranks; other signals have their usual effect on it.
  std::vector<int> signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

  // Output and logs.
  std::filesystem::path log_dir = {};            ///< log folder; empty: a temporary folder, removed on success
  ConsoleStyle console = ConsoleStyle::kPrefix;  ///< how rank 0's output is shown
  ConsoleChoice shown = {};                      ///< the part of the ranks' output that is shown
  /// False, for agents that share a console: only the agent of the node on which the first failure occurred reports it.
  bool reports_other_nodes = true;
  bool keeps_logs = true;  ///< false (requires an empty log_dir): the temporary folder is also removed after a failure
};

/// Returns true if this machine can listen at `host` and `port` now: an agent there can serve the store.
[[nodiscard]] bool can_listen(const std::string& host, std::uint16_t port);

/// Returns a port of `host` that was free a moment ago. Throws: UsageError if `host` is not an address of this machine.
[[nodiscard]] std::uint16_t free_port(const std::string& host);

/// Returns the note on the number of threads that each of `processes` ranks gets if the environment does not set it.
[[nodiscard]] std::string threads_note(int processes);

/// Starts the workers of this node, waits for them to end and returns the exit code: 0, the code of the first failure,
/// or 128 + n for signal n. No process that the workers started outlives the call, even if this process is killed.
///
/// Blocks:      until all workers have ended. Call it from a thread that outlives it; SIGINT, SIGTERM and SIGHUP to
///              this process stop the workers.
/// Thread-safe: no; one call at a time.
/// Throws:      UsageError if the program is not found, the port is busy or several nodes have no token (all before any
///              worker starts); IoError if log files or processes cannot be created; TimeoutError if node 0 does not
///              answer.
/// Example:     return run_agent({.command = {"./train"}, .processes = 2});
[[nodiscard]] int run_agent(const AgentOptions& options);

}  // namespace lockstep

#pragma GCC visibility pop
