// SPDX-License-Identifier: Apache-2.0
// The measurements, inputs and output of `lockstep plan`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/simulate/advice.h"
#include "lockstep/simulate/cluster.h"
#include "lockstep/simulate/workload.h"

namespace lockstep::apps {

/// The CPU time that gradient transfers take on this machine, measured with short all-reduces between two child
/// processes.
struct MeasuredHost {
  simulate::HostCosts costs;
  std::string problem = {};  ///< the reason for missing costs
};

/// Blocks: about five seconds. A cost that cannot be measured counts as zero and is named in `problem`.
[[nodiscard]] MeasuredHost measure_host();

/// Returns text such as "this machine: 102 us per message, 1.31 GB/s through sockets, ...".
[[nodiscard]] std::string host_text(const simulate::HostCosts& costs);

/// Reads the links between hosts from the JSON lines of `lockstep doctor --json`. Returns their slowest rate and
/// longest latency; skips other lines. Pure function. Throws: DataError if no line describes a link, or a link lacks
/// its numbers.
[[nodiscard]] simulate::Link link_of_doctor(std::string_view text);

/// Reads a link from `word`: a file of these JSON lines, or text for parse_link(). Throws: anything either of these
/// throws.
[[nodiscard]] simulate::Link read_link(const std::string& word);

/// Steps of a recipe, measured here: `lockstep bench step` runs as a child, and its flight rings are read.
struct MeasuredRecipe {
  simulate::Workload workload;  ///< steps of all ranks, running side by side
  double alone_s = 0;           ///< median CPU time of a step of one rank running alone; 0: unknown
};

/// Measures RECIPE, RECIPE:PRESET or FILE.yml on `ranks` ranks, then on one rank alone. Buckets of 1 MiB give the
/// finest resolution of gradient times. `batch`: samples per rank; 0: the recipe's own. Blocks: for about sixty steps,
/// at most two hours. Throws: UsageError with the child's message if the child fails; ResourceError if it takes too
/// long.
[[nodiscard]] MeasuredRecipe measure_recipe(const std::string& recipe, int ranks, std::int64_t batch);

/// The facts about a plan's source that the report names.
struct PlanSource {
  std::string name;      ///< the run, or the recipe
  double alone_s = 0;    ///< CPU time of a step of one rank that has the machine to itself; 0: not measured
  std::string measured;  ///< where the CPU costs come from; empty: there are none
};

/// Returns the report: measurements, predictions, the curve, its bottlenecks and the changes that pay off. It ends with
/// a newline.
[[nodiscard]] std::string plan_text(const PlanSource& source, const simulate::Workload& workload,
                                    const simulate::Plan& plan);

/// Returns one JSON object on one line.
[[nodiscard]] std::string plan_json(const PlanSource& source, const simulate::Workload& workload,
                                    const simulate::Plan& plan);

}  // namespace lockstep::apps
