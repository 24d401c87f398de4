// SPDX-License-Identifier: Apache-2.0
// Why a run hangs, failed, or is fine, from the files in its folder. Pure: module launch reads the folder.
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
  int ranks = 0;   ///< folders of ranks, which are this host's
  /// Its launcher's record of a failure or a request to end, in one line: "rank 1 on gpu-a failed first: killed by
  /// signal 9 (SIGKILL)". kNone: its ranks stopped on request (a signal, --max-time). None: it runs, ended well, or its
  /// launcher died.
  std::optional<FailureRecord> verdict = {};
  std::string then = {};                       ///< with a verdict: why the ranks started again, or did not
  int exit_code = 0;                           ///< with a verdict; 0: the ranks started again
  std::vector<std::string> stacks = {};        ///< stacks of the late ranks, if the launcher took them
  std::vector<FailureRecord> errors = {};      ///< the records of ranks that ended with an error, by rank
  bool has_rings = false;                      ///< `lockstep inspect flight` has events to show
  std::string blamed_log = {};                 ///< stderr.log of the rank to blame; empty: it wrote none
  std::vector<std::string> blamed_lines = {};  ///< the last lines in it
};

/// The content of summary.json.
struct RunSummary {
  std::int64_t steps = 0;                                    ///< optimizer steps that were done
  double seconds = 0;                                        ///< their time
  std::vector<std::pair<std::string, double>> metrics = {};  ///< metrics of the last evaluation
  std::int64_t time_ns = 0;                                  ///< when it was written
  std::optional<StepReport> step_report = {};                ///< the time of the parts of its steps
};

/// The content of the end of log.jsonl.
struct RunLog {
  std::int64_t step = 0;                       ///< the last step that was logged
  std::optional<double> loss = {};             ///< loss of that step; none: it was not finite
  std::string stopped_by = {};                 ///< "SIGTERM": the run saved and left; empty: it did not
  std::int64_t time_ns = 0;                    ///< when it was last written
  std::optional<StepReport> step_report = {};  ///< report of the last epoch that has one
};

/// All facts from the folder and the processes. Times are CLOCK_REALTIME but for those of the rings.
struct RunFacts {
  std::string path;                           ///< as it was typed
  bool has_settings = false;                  ///< it is a run folder, with config.yml
  bool is_recipe = false;                     ///< its settings name a recipe, so that `lockstep train` reads them
  std::vector<AttemptFacts> attempts = {};    ///< oldest first
  bool is_launched = false;                   ///< the launcher of the newest attempt runs on this host
  bool launcher_is_gone = false;              ///< it ended without keeping the rings: killed, or on another host
  std::string trainer = {};                   ///< "pid 4711 on gpu-a": a process without a launcher trains in it
  std::vector<flight::RankFacts> ranks = {};  ///< ranks of the newest attempt, if it is launched
  std::optional<RunSummary> summary = {};     ///< none: the run has not written one
  std::optional<RunLog> log = {};             ///< none: the run has not written one
  std::string checkpoint = {};                ///< the newest one that is committed; empty: none
  std::vector<std::string> suspects = {};     ///< names of checkpoints that the guard has put aside, in order
  std::vector<std::string> notes = {};        ///< the files that could not be read, and why
  std::int64_t now_ns = 0;                    ///< CLOCK_REALTIME
  std::int64_t monotonic_ns = 0;              ///< CLOCK_MONOTONIC, as the rings have it
};

/// The state of a run, or its end.
enum class RunState : std::uint8_t {
  kRuns,      ///< it goes on
  kWaits,     ///< it runs, and ranks wait for one that does not come
  kFinished,  ///< training is complete
  kEnded,     ///< its ranks have ended, and none of them failed
  kStopped,   ///< it saved and left as it was asked
  kFailed,    ///< it ended with an error
  kLost,      ///< it does not run, and no record says why
  kEmpty      ///< it has not begun
};
/// Returns "runs", "waits" and so on.
[[nodiscard]] const char* name_of(RunState state);

/// The report of `lockstep doctor RUN_DIR`.
struct RunDiagnosis {
  RunState state = RunState::kEmpty;      ///< its state, or how it ended
  std::string text;                       ///< one line
  std::vector<std::string> earlier = {};  ///< one line for each attempt before the newest; the oldest may be counted
  std::vector<std::string> details = {};  ///< lines below it
  std::optional<StepReport> report = {};  ///< the time of the parts of its steps
  std::vector<std::string> stacks = {};   ///< stacks of the ranks that hang
  std::vector<std::string> notes = {};    ///< the files that could not be read, and why
  std::vector<std::string> next = {};     ///< commands or advice
};
/// Decides the state of a run from the facts. A pure function.
[[nodiscard]] RunDiagnosis diagnose(const RunFacts& facts);

/// Returns the page for a person. It ends with a line end.
[[nodiscard]] std::string diagnosis_text(const RunDiagnosis& diagnosis, bool color);

/// Returns one line of JSON: {"run", "state", "text", "attempt", "earlier", "details", "stacks", "notes", "next",
/// "step", "checkpoint", "report"}; the last three are null if nothing is known.
[[nodiscard]] std::string diagnosis_json(const RunFacts& facts, const RunDiagnosis& diagnosis);

}  // namespace lockstep::view

#pragma GCC visibility pop
