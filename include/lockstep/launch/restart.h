// SPDX-License-Identifier: Apache-2.0
// Whether a failed group starts again: a pure function, so that every rule has a test without a process.
#pragma once

#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// What is known about a failure when the decision falls.
struct RestartFacts {
  std::string error_type = {};   ///< "DataError", ... from the worker's error file; empty: not one of our programs
  std::string error_text = {};   ///< its words, from there or from the store
  bool was_interrupted = false;  ///< somebody asked the agent to stop
  int nodes = 1;
  int restarts_done = 0;
  int max_restarts = 0;
};

struct RestartDecision {
  bool restart = false;
  std::string reason;  ///< one clause for the log
};

/// Usage, data and internal errors never restart, nor does a disk that is full or read-only; everything else does while
/// the budget lasts. Exit codes of other programs mean nothing.
[[nodiscard]] RestartDecision decide_restart(const RestartFacts& facts);

}  // namespace lockstep

#pragma GCC visibility pop
