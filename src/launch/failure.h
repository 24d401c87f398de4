// SPDX-License-Identifier: Apache-2.0
// Which failure came first, and the words for it. Pure but for reading a rank's error file.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/failure_record.h"

namespace lockstep::launch {

/// How a worker ended.
struct WorkerEnd {
  int rank = 0;
  pid_t pid = 0;
  int wait_status = 0;
  int signal_sent = 0;   ///< what the agent had sent it before; 0: it ended by itself
  std::string why = {};  ///< what the system knows of its end
};

[[nodiscard]] bool has_failed(const WorkerEnd& end);

/// It exited with 143 or 130: it was asked to save and leave, and did.
[[nodiscard]] bool leaves_by_request(const WorkerEnd& end);

/// Another's end came first: it exited with 75 (a peer died), 143 or 130, or the agent had told it to stop.
[[nodiscard]] bool is_consequence(const WorkerEnd& end);

/// Index into `ends` (in the order in which they came) of the failure to blame; none where nobody failed. The claim
/// wins unless that rank was itself only a consequence.
[[nodiscard]] std::optional<std::size_t> find_first(const std::vector<WorkerEnd>& ends,
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

/// What the agent tells the others of a worker that ended without a word.
[[nodiscard]] FailureRecord record_of_end(const WorkerEnd& end);

/// What a worker wrote into its error file: our programs and Python's torch.distributed.elastic `record`.
struct WorkerError {
  std::string type;  ///< "DataError"; empty where the program is not ours
  std::string message;
};
[[nodiscard]] std::optional<WorkerError> read_error_file(const std::filesystem::path& file);

/// What a rank has told the others, as its error file would have it.
[[nodiscard]] WorkerError error_of(const FailureRecord& claim);

/// The report that is printed last.
struct FailureReport {
  WorkerEnd end;
  std::string host;
  std::optional<WorkerError> error;
  std::vector<std::string> last_lines;
  std::string last_lines_of;  ///< the log file that they are from
};
[[nodiscard]] std::string format_report(const FailureReport& report);

}  // namespace lockstep::launch
