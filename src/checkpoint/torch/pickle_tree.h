// SPDX-License-Identifier: Apache-2.0
// Checks the tree of a pickle. A pickle's values may share parts and form cycles, but its result must be a tree. The
// check rejects cycles and trees that are too large before it builds any value.
#pragma once

#include <string>

#include "checkpoint/torch/pickle_parse.h"

namespace lockstep::checkpoint {

/// Returns "" if the tree below the root has the properties that Pickle promises, else the first fault.
[[nodiscard]] std::string check_pickle_tree(const Pickle& pickle);

}  // namespace lockstep::checkpoint
