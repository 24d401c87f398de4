// SPDX-License-Identifier: Apache-2.0
// A pickle's values share parts and may run in circles; what is made of them is a tree. Whether that tree is bounded is
// decided here, before anything is built.
#pragma once

#include <string>

#include "checkpoint/torch/pickle_parse.h"

namespace lockstep::checkpoint {

/// Returns "" where everything below the root is as Pickle promises, else what is not.
[[nodiscard]] std::string check_pickle_tree(const Pickle& pickle);

}  // namespace lockstep::checkpoint
