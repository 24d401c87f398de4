// SPDX-License-Identifier: Apache-2.0
// A launcher's notes on a run before its ranks start. A rank prints them once options and data are known to be right,
// so that no heading comes above an error.
#pragma once

#include <string>

namespace lockstep::cli {

/// For the launcher: passes `note` to the processes that it starts or becomes.
void keep_start_note(const std::string& note);

/// For the worker: the first rank of this node prints the notes at its first call. Other ranks and restarted ones print
/// nothing.
void say_start_notes();

}  // namespace lockstep::cli
