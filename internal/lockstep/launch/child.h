// SPDX-License-Identifier: Apache-2.0
// Runs programs with a time limit and reads their output.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/file_system.h"

#pragma GCC visibility push(default)

namespace lockstep {

struct ChildResult {
  int code = -1;  ///< exit code, 128 + N for signal N; -1: killed at the time limit, or lost because SIGCHLD is ignored
  std::string out;  ///< the last MiB of its stdout
  std::string err;  ///< the last 4 KiB of its stderr
};

/// Runs `command` to its end, or kills it and its descendants at the limit. The first element of `command` is looked up
/// in PATH; on SIGTERM the program must end its own children, as `lockstep run` does. Throws: ResourceError; IoError if
/// it cannot be started.
[[nodiscard]] ChildResult run_child(std::vector<std::string> command, std::chrono::milliseconds limit);

/// A program that answers each line of input with a line of output until its input ends. Its stderr is kept, to report
/// why it ended.
class AnsweringChild {
 public:
  /// The first element of `command` is looked up in PATH. Throws: ResourceError; IoError if it cannot be started.
  explicit AnsweringChild(std::vector<std::string> command);
  /// Closes its input, and kills it if it has not ended after two seconds.
  ~AnsweringChild();
  AnsweringChild(const AnsweringChild&) = delete;
  AnsweringChild& operator=(const AnsweringChild&) = delete;

  /// Sends a line. If the program has ended, answer() shows that.
  void ask(const std::string& line);
  /// Returns its next line; none if it ends, or prints nothing within `limit`. Blocks: yes.
  [[nodiscard]] std::optional<std::string> answer(std::chrono::milliseconds limit);
  /// Returns the last line of its stderr so far.
  [[nodiscard]] std::string last_error() const;

 private:
  pid_t pid_ = -1;
  UniqueFd input_;
  UniqueFd out_;
  UniqueFd err_;
  std::string said_;
  std::string errors_;
};

}  // namespace lockstep

#pragma GCC visibility pop
