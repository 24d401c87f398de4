// SPDX-License-Identifier: Apache-2.0
// The measurements, inputs and texts of `lockstep plan`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/simulate/advice.h"
#include "lockstep/simulate/cluster.h"
#include "lockstep/simulate/workload.h"

namespace lockstep::apps {

/// The processor time that moving gradients costs on this machine: short all-reduces of two ranks, run as children.
struct MeasuredHost {
  simulate::HostCosts costs;
  std::string problem = {};  ///< why something is missing
};

/// Blocks: about five seconds. A cost that cannot be measured counts as zero and is named in `problem`.
[[nodiscard]] MeasuredHost measure_host();

/// Returns "this machine: 102 us a message, 1.31 GB/s through sockets, ...".
[[nodiscard]] std::string host_text(const simulate::HostCosts& costs);

/// Reads links between hosts as `lockstep doctor --json` measured them.
/// Returns the slowest rate and the longest latency of the objects in `text`, one a line; skips other lines. Pure.
/// Throws: DataError if no line is a link, or a link has no figures.
[[nodiscard]] simulate::Link link_of_doctor(std::string_view text);

/// `word` is a file of such lines, or what parse_link() takes. Throws: as both.
[[nodiscard]] simulate::Link read_link(const std::string& word);

/// Steps of a recipe, measured here: `lockstep bench step` runs as a child, and its flight rings are read.
struct MeasuredRecipe {
  simulate::Workload workload;  ///< of all ranks, side by side
  double alone_s = 0;           ///< median core time of a step of one rank that runs alone; 0: unknown
};

/// Measures RECIPE, RECIPE:PRESET or FILE.yml on `ranks` ranks, then on one rank alone. Buckets of 1 MiB show best when
/// gradients come. `batch`: images of a rank; 0: the recipe's own. Blocks: for some sixty steps, two hours at most.
/// Throws: UsageError with the child's words if it fails; ResourceError if it takes too long.
[[nodiscard]] MeasuredRecipe measure_recipe(const std::string& recipe, int ranks, std::int64_t batch);

/// The facts about a plan's source that the texts name.
struct PlanSource {
  std::string name;      ///< the run, or the recipe
  double alone_s = 0;    ///< of a step of one rank that has the machine to itself; 0: not measured
  std::string measured;  ///< the source of the processors' costs; empty: none
};

/// Returns the page: measurements, predictions, the curve, its bottlenecks and the changes that pay. Ends with a line
/// end.
[[nodiscard]] std::string plan_text(const PlanSource& source, const simulate::Workload& workload,
                                    const simulate::Plan& plan);

/// Returns one JSON object on one line.
[[nodiscard]] std::string plan_json(const PlanSource& source, const simulate::Workload& workload,
                                    const simulate::Plan& plan);

}  // namespace lockstep::apps
