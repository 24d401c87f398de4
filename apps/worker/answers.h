// SPDX-License-Identifier: Apache-2.0
// Many short questions, such as --help, for one start: libtorch takes half a second to load. The build asks for the
// texts of man pages and completion so (scripts/build/command_help.py).
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep::worker {

/// Runs each line of stdin, words with tabs between them, in a fork of this process. Behind each answer on stdout comes
/// a form feed with the exit code. Returns 0 when stdin ends.
int answer_all(const std::function<int(const std::vector<std::string>&)>& run);

}  // namespace lockstep::worker
