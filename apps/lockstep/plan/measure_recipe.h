// SPDX-License-Identifier: Apache-2.0
// Steps of a recipe, measured here by `lockstep bench step` as a child, whose flight rings are read.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/schedule/workload.h"

namespace lockstep::apps {

/// A recipe's steps.
struct MeasuredRecipe {
  schedule::Workload workload;  ///< of all ranks, side by side
  double alone_s = 0;           ///< median time on a core of a step of one rank without neighbours; 0: unknown
};

/// Measures RECIPE, RECIPE:PRESET or FILE.yml on `ranks` ranks, with buckets of 1 MiB, which say most of when gradients
/// come, and then one rank alone. `batch` is the images of a rank; 0: as the recipe has. Blocks: as long as some sixty
/// steps take, two hours at most.
/// Throws: UsageError with the child's words where it fails; ResourceError where it takes too long.
[[nodiscard]] MeasuredRecipe measure_recipe(const std::string& recipe, int ranks, std::int64_t batch);

}  // namespace lockstep::apps
