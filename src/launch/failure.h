// SPDX-License-Identifier: Apache-2.0
// How a node's ranks ended in a round. Finds the first failure and reports it to the coordinator, the user and
// `lockstep doctor`.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/nodes/messages.h"
#include "lockstep/base/failure_record.h"

namespace lockstep::launch {

class LogFolder;
struct Round;
struct WorkerGroupResult;

/// How a worker ended.
struct WorkerEnd {
  int rank = 0;
  pid_t pid = 0;
  int wait_status = 0;
  int signal_sent = 0;   ///< the agent's last signal to the worker before it ended; 0 if it ended on its own
  std::string why = {};  ///< why it ended, if the system knows
};

[[nodiscard]] bool has_failed(const WorkerEnd& end);

/// Returns true if the worker exited with 143 or 130: it was asked to save and exit, and did so.
[[nodiscard]] bool leaves_by_request(const WorkerEnd& end);

/// Returns true if another rank caused the end: exit code 75 (a peer died), 143 or 130, or the agent's signal.
[[nodiscard]] bool is_consequence(const WorkerEnd& end);

/// Returns the end of the rank to blame (nodes/blame.h); none if no rank failed.
[[nodiscard]] std::optional<WorkerEnd> first_of(const std::vector<WorkerEnd>& ends,
                                                const std::optional<FailureRecord>& claim);

/// Returns the exit code as a shell shows it.
[[nodiscard]] int exit_code(int wait_status);

/// Returns the exit code of a round that ended because of `cause`, a failure of this rank: the rank's own exit code, or
/// the exit code of the error if the agent killed the rank while it was unwinding after that error.
[[nodiscard]] int exit_code_of(const WorkerEnd& end, const FailureRecord& cause);

/// Returns "exit code 3" or "killed by signal 9 (SIGKILL)".
[[nodiscard]] std::string describe_status(int wait_status);

/// Describes an end that the agent's own signal may have caused: "ended by its launcher".
[[nodiscard]] std::string describe_end(const WorkerEnd& end);

/// Returns the record that the agent publishes to the other ranks for a worker that left no error record.
[[nodiscard]] FailureRecord record_of_end(const WorkerEnd& end);

/// Reads the type and text of the error that a worker wrote to its error file, as Lockstep programs and Python's
/// torch.distributed.elastic `record` do.
[[nodiscard]] std::optional<FailureRecord> read_error_file(const std::filesystem::path& file);

/// Returns the report that is printed last. `said` has the rank's error, if any, and its host. `last_lines` are the
/// last lines of the file `lines_of`.
[[nodiscard]] std::string format_report(const WorkerEnd& end, const FailureRecord& said,
                                        const std::vector<std::string>& last_lines, const std::string& lines_of);

/// One round of this node, and its outcome. Lifetime: the objects that it refers to outlive it.
struct RoundFacts {
  const Round& round;
  const WorkerGroupResult& result;
  const LogFolder& logs;
  int attempt = 0;          ///< the attempt's number in the log folder
  const std::string& path;  ///< path of the program
};

/// Returns the report to the coordinator.
[[nodiscard]] NodeEnd end_of_round(const RoundFacts& facts);

/// Returns "cannot execute './train' (Exec format error)".
[[nodiscard]] std::string start_error_text(const RoundFacts& facts);

/// Prints the reason for a restart, before the ranks restart.
void warn_of_failure(const Order& order, const RoundFacts& facts);

/// Returns true if the rank that failed first is on another node, whose agent has its output.
[[nodiscard]] bool is_of_other_node(const Order& order, const RoundFacts& facts);

/// Returns the stacks of the rank that the order blames, line by line, if this agent has captured them.
[[nodiscard]] std::vector<std::string> stacks_for(const Order& order, const RoundFacts& facts);

/// Returns true for an error in the arguments or the input of a single-node job that had not begun any step. Every rank
/// runs into such an error, so it does not matter which came first.
[[nodiscard]] bool is_error_of_start(const Order& order, const RoundFacts& facts);

/// Prints a startup error as a single process would, unless rank 0, whose stderr is shown as is, has printed it.
void print_error_of_start(const Order& order, const RoundFacts& facts);

/// Prints the failure to blame, as the job's last output. `with_reason` adds why no restart followed.
void print_blame(const Order& order, const RoundFacts& facts, bool with_reason);
/// Prints the loss of a node. `stacks` holds the stacks of the late rank, line by line.
void print_lost(const FailureRecord& lost, const std::vector<std::string>& stacks = {});

/// The "cause" of an attempt whose ranks stopped on request, by a signal or --max-time, not by a failure.
inline constexpr const char* kAskedToLeave = "told";

/// Returns the text of verdict.json, one JSON object: {"schema": 1, "text", "hint", "cause", "rank", "host",
/// "exit_code" (0: the ranks restarted), "then", "time_ns", "stacks" (lines; only if there are some)}. Requires: the
/// order has a cause or is graceful.
[[nodiscard]] std::string verdict_json(const Order& order, const std::vector<std::string>& stacks = {});

/// Writes verdict.json into `attempt`, a log folder, if the order has a cause or is graceful. It never throws: the
/// console has the same text.
void write_verdict(const Order& order, const std::vector<std::string>& stacks,
                   const std::filesystem::path& attempt) noexcept;

}  // namespace lockstep::launch
