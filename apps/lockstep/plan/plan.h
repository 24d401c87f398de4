// SPDX-License-Identifier: Apache-2.0
// What `lockstep plan` measures, reads and says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/simulate/advice.h"
#include "lockstep/simulate/cluster.h"
#include "lockstep/simulate/workload.h"

namespace lockstep::apps {

/// What moving gradients costs this machine's processors: short all-reduces of two ranks as children.
struct MeasuredHost {
  simulate::HostCosts costs;
  std::string problem = {};  ///< why something is missing
};

/// Blocks: about five seconds. A cost that cannot be measured counts as zero, and is named.
[[nodiscard]] MeasuredHost measure_host();

/// Returns "this machine: 102 us a message, 1.31 GB/s through sockets, ...".
[[nodiscard]] std::string host_text(const simulate::HostCosts& costs);

/// The links that `lockstep doctor --json` has measured between hosts.
/// Returns the slowest rate and the longest way of the objects in `text`, one a line; other lines are left out. Pure.
/// Throws: DataError where no line is a link, or a link has no figures.
[[nodiscard]] simulate::Link link_of_doctor(std::string_view text);

/// `word` is a file of such lines, or what parse_link() takes. Throws: as both.
[[nodiscard]] simulate::Link read_link(const std::string& word);

/// Steps of a recipe, measured here by `lockstep bench step` as a child, whose flight rings are read.
struct MeasuredRecipe {
  simulate::Workload workload;  ///< of all ranks, side by side
  double alone_s = 0;           ///< median time on a core of a step of one rank without neighbours; 0: unknown
};

/// Measures RECIPE, RECIPE:PRESET or FILE.yml on `ranks` ranks, with buckets of 1 MiB, which say most of when gradients
/// come, and then one rank alone. `batch` is the images of a rank; 0: as the recipe has. Blocks: as long as some sixty
/// steps take, two hours at most.
/// Throws: UsageError with the child's words where it fails; ResourceError where it takes too long.
[[nodiscard]] MeasuredRecipe measure_recipe(const std::string& recipe, int ranks, std::int64_t batch);

/// What the texts say beside the plan.
struct PlanSource {
  std::string name;      ///< the run, or the recipe
  double alone_s = 0;    ///< of a step of one rank that had the machine for itself; 0: not measured
  std::string measured;  ///< what the processors' costs come from; empty: from nothing
};

/// Returns the page: what was measured, what is predicted, the curve, what holds it up and what pays. It ends with a
/// line end.
[[nodiscard]] std::string plan_text(const PlanSource& source, const simulate::Workload& workload,
                                    const simulate::Plan& plan);

/// Returns one JSON object on one line.
[[nodiscard]] std::string plan_json(const PlanSource& source, const simulate::Workload& workload,
                                    const simulate::Plan& plan);

}  // namespace lockstep::apps
