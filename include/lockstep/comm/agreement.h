// SPDX-License-Identifier: Apache-2.0
// A check that all ranks were started with the same settings.
#pragma once

#include <map>
#include <string>

#include "lockstep/comm/process_group.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Compares `settings` across the ranks. If they are equal, which is the common case, the ranks exchange only a digest.
///
/// Collective: yes. Blocks: yes.
/// Throws: UsageError on every rank, naming each key that differs, its values, and the ranks that have them; the errors
///         of Work::wait().
/// Example: lockstep::require_same_settings(job.group(), {{"seed", "7"}, {"data", folder}});
void require_same_settings(ProcessGroup& group, const std::map<std::string, std::string>& settings);

}  // namespace lockstep

#pragma GCC visibility pop
