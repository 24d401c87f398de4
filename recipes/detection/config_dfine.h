// SPDX-License-Identifier: Apache-2.0
// Names of the published network's settings: dfine.backbone and so on.
#pragma once

#include <string>
#include <vector>

#include "detection/dfine/options.h"
#include "lockstep/base/config.h"

namespace lockstep::detection {

/// Adds them to `fields`. `points`: the text of Options::points.
void describe_dfine(ConfigFields& fields, dfine::Options& options, std::vector<std::string>& points);

}  // namespace lockstep::detection
