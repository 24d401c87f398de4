// SPDX-License-Identifier: Apache-2.0
// Determines from facts about a run's folder why the run hangs or failed, or that it is fine. Pure functions: the
// launch module reads the folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/failure_record.h"
#include "lockstep/flight/verdict.h"
#include "lockstep/view/step_report.h"

#pragma GCC visibility push(default)

namespace lockstep::view {

/// One start of the run's ranks.
struct AttemptFacts {
  int number = 0;  ///< counted from 0
  int ranks = 0;   ///< number of ranks on this host that have a folder
  /// Its launcher's record of a failure or of a stop request: "rank 1 on gpu-a failed first: killed by signal 9
  /// (SIGKILL)". kNone: its ranks stopped on request (a signal, --max-time). None: the attempt is running, it ended
  /// successfully, or its launcher died.
  std::optional<FailureRecord> verdict = {};
  std::string then = {};  ///< the reason why the ranks were or were not restarted, if there is a verdict
  int exit_code = 0;      ///< exit code of the launcher, if there is a verdict; 0: the ranks were restarted
  std::vector<std::string> stacks = {};        ///< stacks of the late ranks, if the launcher took them
  std::vector<FailureRecord> errors = {};      ///< the records of ranks that ended with an error, by rank
  bool has_rings = false;                      ///< `lockstep inspect flight` has events to show
  std::string blamed_log = {};                 ///< stderr.log of the rank at fault; empty: it wrote nothing
  std::vector<std::string> blamed_lines = {};  ///< the last lines of blamed_log
};

/// The content of summary.json.
struct RunSummary {
  std::int64_t steps = 0;                                    ///< optimizer steps done
  double seconds = 0;                                        ///< time of these steps
  std::vector<std::pair<std::string, double>> metrics = {};  ///< metrics of the last evaluation
  std::int64_t time_ns = 0;                                  ///< time of writing
  std::optional<StepReport> step_report = {};                ///< how long the parts of its steps took
};

/// The newest entries of log.jsonl.
struct RunLog {
  std::int64_t step = 0;                       ///< the last step that was logged
  std::optional<double> loss = {};             ///< loss of that step; none: it was not finite
  std::string stopped_by = {};                 ///< the request that made the run save and end: "SIGTERM"; empty: none
  std::int64_t time_ns = 0;                    ///< time of the last write
  std::optional<StepReport> step_report = {};  ///< report of the last epoch that has one
};

/// All facts from the folder and the processes. Times are CLOCK_REALTIME, except in the flight rings.
struct RunFacts {
  std::string path;                         ///< the run folder, as it was typed
  bool has_settings = false;                ///< it is a run folder, with config.yml
  bool is_recipe = false;                   ///< its settings name a recipe, so that `lockstep train` can read them
  std::vector<AttemptFacts> attempts = {};  ///< oldest first
  bool is_launched = false;                 ///< the launcher of the newest attempt runs on this host
  bool launcher_is_gone = false;  ///< the launcher ended without saving the rings: it was killed, or is on another host
  std::string trainer = {};       ///< a process without a launcher that is training in the folder: "pid 4711 on gpu-a"
  std::vector<flight::RankFacts> ranks = {};  ///< ranks of the newest attempt, if is_launched
  std::optional<RunSummary> summary = {};     ///< content of the file; none: it has not been written yet
  std::optional<RunLog> log = {};             ///< content of the file; none: it has not been written yet
  std::string checkpoint = {};                ///< the newest committed checkpoint; empty: none
  std::vector<std::string> suspects = {};     ///< names of checkpoints that the guard has set aside, in order
  std::vector<std::string> notes = {};        ///< the files that could not be read, and why
  std::int64_t now_ns = 0;                    ///< the current time of CLOCK_REALTIME
  std::int64_t monotonic_ns = 0;              ///< the current time of CLOCK_MONOTONIC, the clock of the rings
};

/// The state of a run, or its end.
enum class RunState : std::uint8_t {
  kRuns,      ///< it is running
  kWaits,     ///< it is running, but ranks are waiting for one that does not arrive
  kFinished,  ///< training is complete
  kEnded,     ///< its ranks have ended, and no rank failed
  kStopped,   ///< it saved and ended on request
  kFailed,    ///< it ended with an error
  kLost,      ///< it is not running, and no record gives the reason
  kEmpty      ///< it has not begun
};
/// Returns "runs", "waits" and so on.
[[nodiscard]] const char* name_of(RunState state);

/// The report of `lockstep doctor RUN_DIR`.
struct RunDiagnosis {
  RunState state = RunState::kEmpty;      ///< the run's state or end
  std::string text;                       ///< the finding, in one line
  std::vector<std::string> earlier = {};  ///< a line for each earlier attempt; the oldest may only be counted
  std::vector<std::string> details = {};  ///< further lines
  std::optional<StepReport> report = {};  ///< how long the parts of its steps took
  std::vector<std::string> stacks = {};   ///< stacks of the hung ranks
  std::vector<std::string> notes = {};    ///< the files that could not be read, and why
  std::vector<std::string> next = {};     ///< commands or advice
};
/// Determines the state of a run from the facts. A pure function.
[[nodiscard]] RunDiagnosis diagnose(const RunFacts& facts);

/// Returns the human-readable page. It ends with a newline.
[[nodiscard]] std::string diagnosis_text(const RunDiagnosis& diagnosis, bool color);

/// Returns one line of JSON: {"run", "state", "text", "attempt", "earlier", "details", "stacks", "notes", "next",
/// "step", "checkpoint", "report"}; the last three are null if nothing is known.
[[nodiscard]] std::string diagnosis_json(const RunFacts& facts, const RunDiagnosis& diagnosis);

}  // namespace lockstep::view

#pragma GCC visibility pop
