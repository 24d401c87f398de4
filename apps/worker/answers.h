// SPDX-License-Identifier: Apache-2.0
// Answers many short commands, such as --help, in one process, because libtorch takes half a second to load. The build
// uses it for man pages and completions (scripts/build/command_help.py), and tests use it for a verb's errors.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep::worker {

/// Runs each line of stdin in a fork of this process. A line holds the working folder and the arguments, separated by
/// tabs. On stdout, each output is followed by a form feed and the exit code. Returns 0 when stdin ends.
int answer_all(const std::function<int(const std::vector<std::string>&)>& run);

}  // namespace lockstep::worker
