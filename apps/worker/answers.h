// SPDX-License-Identifier: Apache-2.0
// Many short questions, such as --help, for one start: libtorch takes half a second to load. The build asks so for the
// texts of man pages and completion (scripts/build/command_help.py), and tests for what a verb says of wrong words.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep::worker {

/// Runs each line of stdin in a fork of this process: the folder to run in, then the words, with tabs between them.
/// Behind each answer on stdout comes a form feed with the exit code. Returns 0 when stdin ends.
int answer_all(const std::function<int(const std::vector<std::string>&)>& run);

}  // namespace lockstep::worker
