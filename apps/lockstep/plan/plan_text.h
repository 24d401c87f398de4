// SPDX-License-Identifier: Apache-2.0
// A plan as text for people and as JSON. Pure.
#pragma once

#include <string>

#include "lockstep/schedule/advice.h"
#include "lockstep/schedule/workload.h"

namespace lockstep::apps {

/// What the texts say beside the plan.
struct PlanSource {
  std::string name;      ///< the run, or the recipe
  double alone_s = 0;    ///< of a step of one rank that had the machine for itself; 0: not measured
  std::string measured;  ///< what the processors' costs come from; empty: from nothing
};

/// Returns the page: what was measured, what is predicted, the curve, what holds it up and what pays. It ends with a
/// line end.
[[nodiscard]] std::string plan_text(const PlanSource& source, const schedule::Workload& workload,
                                    const schedule::Plan& plan);

/// Returns one JSON object on one line.
[[nodiscard]] std::string plan_json(const PlanSource& source, const schedule::Workload& workload,
                                    const schedule::Plan& plan);

}  // namespace lockstep::apps
