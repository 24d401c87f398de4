// SPDX-License-Identifier: Apache-2.0
// Steps of a recipe, measured here by `lockstep bench step` as a child, whose flight rings are read.
#pragma once

#include <string>

#include "lockstep/schedule/workload.h"

namespace lockstep::apps {

/// Measures RECIPE, RECIPE:PRESET or FILE.yml on `ranks` ranks, with buckets of 1 MiB, which say most of when gradients
/// come. Blocks: as long as some thirty steps take, an hour at most.
/// Throws: UsageError with the child's words where it fails; ResourceError where it takes too long.
[[nodiscard]] schedule::Workload measure_recipe(const std::string& recipe, int ranks);

}  // namespace lockstep::apps
