// SPDX-License-Identifier: Apache-2.0
// What a launcher has to say of a run before its ranks start. A rank says it for it, once options and data are known to
// be right: an error has no heading above it.
#pragma once

#include <string>

namespace lockstep::cli {

/// For the launcher: the processes that it starts, or becomes, get `note`.
void keep_start_note(const std::string& note);

/// For the worker: the first rank of this node says the notes as soon as it calls this, once; others, and ranks that
/// are started again, say nothing.
void say_start_notes();

}  // namespace lockstep::cli
