// SPDX-License-Identifier: Apache-2.0
// The words of the recipe's origin (D-FINE, DEIM) and what they are called here.
#pragma once

#include <vector>

#include "lockstep/train/config_alias.h"

namespace lockstep::detection {

[[nodiscard]] std::vector<ConfigAlias> aliases();

}  // namespace lockstep::detection
