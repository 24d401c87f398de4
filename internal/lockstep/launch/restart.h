// SPDX-License-Identifier: Apache-2.0
// Decides whether a failed worker group is restarted. The decision is a pure function, so that tests can check every
// rule without processes.
#pragma once

#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// The facts about a failure on which the decision depends.
struct RestartFacts {
  std::string error_type = {};   ///< "DataError", ... from the worker's error file; empty: not a Lockstep program
  std::string error_text = {};   ///< the error's message, from the error file or the store
  bool was_interrupted = false;  ///< a user or signal asked the agent to stop
  int restarts_done = 0;         ///< restarts so far
  int max_restarts = 0;          ///< number of restarts allowed
};

/// The decision after a failure.
struct RestartDecision {
  bool restart = false;  ///< the ranks are restarted
  std::string reason;    ///< one clause for the log
};

/// Decides whether a failure restarts the job. Usage, data and internal errors never do, nor does a full or read-only
/// disk, a lost run folder or a run that was saved in its rescue folder; every other failure does while restarts
/// remain. The exit code of a program without Lockstep does not matter.
[[nodiscard]] RestartDecision decide_restart(const RestartFacts& facts);

}  // namespace lockstep

#pragma GCC visibility pop
