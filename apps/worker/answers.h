// SPDX-License-Identifier: Apache-2.0
// Answers many short questions, such as --help, in one start, as libtorch takes half a second to load. The build asks
// for the texts of man pages and completion (scripts/build/command_help.py), and tests ask for a verb's errors.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep::worker {

/// Runs each line of stdin in a fork of this process. A line is the folder to run in, then the words, separated by
/// tabs. After each answer comes a form feed with the exit code, on stdout. Returns 0 when stdin ends.
int answer_all(const std::function<int(const std::vector<std::string>&)>& run);

}  // namespace lockstep::worker
