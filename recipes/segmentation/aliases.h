// SPDX-License-Identifier: Apache-2.0
// The argument names of the origin's train.py, and what they are called here.
#pragma once

#include <vector>

#include "lockstep/train/config_alias.h"

namespace lockstep::segmentation {

/// `--layers 50 --model_type res50_ASPP_lorm ...`, as options after `train segmentation` or under --set.
[[nodiscard]] std::vector<ConfigAlias> aliases();

}  // namespace lockstep::segmentation
