// SPDX-License-Identifier: Apache-2.0
// How the ranks of a node ended in a round: which failure came first, for the coordinator, for the user, and for
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
  int signal_sent = 0;   ///< the agent's last signal to it before that; 0: it ended by itself
  std::string why = {};  ///< the reason that the system knows
};

[[nodiscard]] bool has_failed(const WorkerEnd& end);

/// It exited with 143 or 130: it was asked to save and leave, and did.
[[nodiscard]] bool leaves_by_request(const WorkerEnd& end);

/// Another rank's end came first: it exited with 75 (a peer died), 143 or 130, or the agent had asked it to stop.
[[nodiscard]] bool is_consequence(const WorkerEnd& end);

/// Returns the end of the rank to blame (nodes/blame.h); none if no rank failed.
[[nodiscard]] std::optional<WorkerEnd> first_of(const std::vector<WorkerEnd>& ends,
                                                const std::optional<FailureRecord>& claim);

/// The exit code as a shell shows it.
[[nodiscard]] int exit_code(int wait_status);

/// The exit code of a round that ended by `cause`, the failure of this rank. It is the rank's own, unless the agent
/// killed the rank while it still unwound after its error: then it is that error's.
[[nodiscard]] int exit_code_of(const WorkerEnd& end, const FailureRecord& cause);

/// "exit code 3", "killed by signal 9 (SIGKILL)".
[[nodiscard]] std::string describe_status(int wait_status);

/// Does the same for an end that the agent's own signal may have brought: "ended by its launcher".
[[nodiscard]] std::string describe_end(const WorkerEnd& end);

/// The agent's report to the others of a worker that ended without an error record.
[[nodiscard]] FailureRecord record_of_end(const WorkerEnd& end);

/// The type and words that a worker wrote into its error file: our programs and Python's torch.distributed.elastic
/// `record`.
[[nodiscard]] std::optional<FailureRecord> read_error_file(const std::filesystem::path& file);

/// The report that is printed last. `said`: the rank's error, if it has words, and its host. `last_lines` are from the
/// file `lines_of`.
[[nodiscard]] std::string format_report(const WorkerEnd& end, const FailureRecord& said,
                                        const std::vector<std::string>& last_lines, const std::string& lines_of);

/// One round of this node, and its outcome. Lifetime: the objects that it refers to outlive it.
struct RoundFacts {
  const Round& round;
  const WorkerGroupResult& result;
  const LogFolder& logs;
  int attempt = 0;          ///< the number in the log folder
  const std::string& path;  ///< path of the program
};

/// The report to the coordinator.
[[nodiscard]] NodeEnd end_of_round(const RoundFacts& facts);

/// "cannot execute './train' (Exec format error)".
[[nodiscard]] std::string start_error_text(const RoundFacts& facts);

/// Prints why the ranks start again, before they do.
void warn_of_failure(const Order& order, const RoundFacts& facts);

/// The first failure is a rank's of another node, whose agent has its output.
[[nodiscard]] bool is_of_other_node(const Order& order, const RoundFacts& facts);

/// The stacks of the rank that the order blames, a line each, if this agent has taken them.
[[nodiscard]] std::vector<std::string> stacks_for(const Order& order, const RoundFacts& facts);

/// An error in the call or the input of a job on one node that had begun no step. Every rank meets it, so the rank that
/// was first means nothing.
[[nodiscard]] bool is_error_of_start(const Order& order, const RoundFacts& facts);

/// Prints such an error as a single process does, unless rank 0 has: its stderr is shown as it is.
void print_error_of_start(const Order& order, const RoundFacts& facts);

/// Prints the blame, as the job's last word. `with_reason`: a rank's failure could have been followed by a restart.
void print_blame(const Order& order, const RoundFacts& facts, bool with_reason);
/// `stacks`: of the rank that is late, a line each.
void print_lost(const FailureRecord& lost, const std::vector<std::string>& stacks = {});

/// The "cause" of an attempt whose ranks stopped on request, by a signal or --max-time: none of them failed.
inline constexpr const char* kAskedToLeave = "told";

/// Returns the text of verdict.json, one JSON object: {"schema": 1, "text", "hint", "cause", "rank", "host",
/// "exit_code" (0: the ranks started again), "then", "time_ns", "stacks" (lines; only if there are some)}.
/// Precondition: the order has a cause, or is graceful.
[[nodiscard]] std::string verdict_json(const Order& order, const std::vector<std::string>& stacks = {});

/// Writes verdict.json into `attempt`, a folder of logs, if the order has a cause or is graceful. It never throws: the
/// console has the same text.
void write_verdict(const Order& order, const std::vector<std::string>& stacks,
                   const std::filesystem::path& attempt) noexcept;

}  // namespace lockstep::launch
