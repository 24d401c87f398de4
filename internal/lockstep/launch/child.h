// SPDX-License-Identifier: Apache-2.0
// A program whose output is read, with a time limit.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep {

struct ChildResult {
  int code = -1;    ///< exit code, 128 + N for signal N; -1: ended at the time limit, or lost where SIGCHLD is ignored
  std::string out;  ///< its last MiB
  std::string err;  ///< its last 4 KiB
};

/// Runs it to its end, or kills it and all that it has started at the limit: `command`, whose first word is looked up
/// in PATH, has to end its own children when it is told to end by SIGTERM, as `lockstep run` does. Throws:
/// ResourceError, IoError where it cannot be started.
[[nodiscard]] ChildResult run_child(std::vector<std::string> command, std::chrono::milliseconds limit);

}  // namespace lockstep

#pragma GCC visibility pop
