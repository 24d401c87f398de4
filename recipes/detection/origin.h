// SPDX-License-Identifier: Apache-2.0
// What several keys of a D-FINE or DEIM file say only together: operations on pictures, losses, the schedule that
// counts, the backbone's name. Keys that mean something by themselves are in aliases.h.
#pragma once

#include "lockstep/base/config.h"

namespace lockstep::detection {

/// Returns `tree` with these keys replaced by those of the recipe; every value keeps its file and line. A key of the
/// recipe that the tree has already stays, unless the origin's was typed and it was not.
/// Throws: UsageError naming file and line of what has no counterpart.
[[nodiscard]] ConfigTree from_origin(const ConfigTree& tree);

}  // namespace lockstep::detection
