// SPDX-License-Identifier: Apache-2.0
// Checks the tree of a pickle. A pickle's values may share parts and form cycles, but its result is a tree: this checks
// the tree's bounds before anything is built.
#pragma once

#include <string>

#include "checkpoint/torch/pickle_parse.h"

namespace lockstep::checkpoint {

/// Returns "" if everything below the root is as Pickle promises, else the first fault.
[[nodiscard]] std::string check_pickle_tree(const Pickle& pickle);

}  // namespace lockstep::checkpoint
