// SPDX-License-Identifier: Apache-2.0
// A launcher's notes about a run, made before its ranks start. A rank prints them once options and data are known to be
// valid, so that no note is printed above an error.
#pragma once

#include <string>

namespace lockstep::cli {

/// For the launcher: passes `note` to the processes that it starts or executes.
void keep_start_note(const std::string& note);

/// For the worker: the first rank of this node prints the notes on its first call. Other ranks and restarted ranks
/// print nothing.
void say_start_notes();

}  // namespace lockstep::cli
