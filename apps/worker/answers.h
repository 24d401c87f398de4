// SPDX-License-Identifier: Apache-2.0
// Answers many short commands, such as --help, in one process, because libtorch takes half a second to load. The build
// asks for the texts of man pages and completion (scripts/build/command_help.py), and tests ask for a verb's errors.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep::worker {

/// Runs each line of stdin in a fork of this process. A line has the working folder, then the arguments, separated by
/// tabs. After each answer, stdout gets a form feed and the exit code. Returns 0 when stdin ends.
int answer_all(const std::function<int(const std::vector<std::string>&)>& run);

}  // namespace lockstep::worker
