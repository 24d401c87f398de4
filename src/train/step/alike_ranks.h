// SPDX-License-Identifier: Apache-2.0
// Whether all ranks record or replay a step: one small collective of the hosts each.
#pragma once

#include <optional>
#include <string>

#include "lockstep/comm/process_group.h"

namespace lockstep::train {

/// Returns true if every rank has the same key. Collective: yes. Blocks: yes. Throws: as Work::wait; a failure of a GPU
/// comes first.
[[nodiscard]] bool all_have(ProcessGroup& group, const std::optional<std::string>& key);

/// Returns true if `here` is true on every rank. Collective: yes. Blocks: yes. Throws: as all_have().
[[nodiscard]] bool all_are(ProcessGroup& group, bool here);

}  // namespace lockstep::train
