// SPDX-License-Identifier: Apache-2.0
// Finds the first difference between two records of a step that should be equal. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "worker/explain/step_record.h"

namespace lockstep::worker {

/// The first part of a step whose results differ, in the order of the step.
enum class Part { kNone, kWeights, kSamples, kForward, kBackward, kGradients, kUpdate };

/// The first difference.
struct StepDifference {
  Part part = Part::kNone;
  int replica = -1;                   ///< whose batch; -1: of all
  std::string layer;                  ///< module of the operator, or parameter of the gradient; "": unknown
  std::string a;                      ///< the operator, the sample, or the value in A
  std::string b;                      ///< in B; may be the same name: its bits differ
  std::vector<SampleRecord> samples;  ///< of the replica's batch in A
  std::vector<std::pair<std::string, std::string>> changed;  ///< samples whose content differs: names in A and B

  [[nodiscard]] bool any() const { return part != Part::kNone; }
};

/// Returns "forward", "samples", ...
[[nodiscard]] std::string part_name(Part part);

/// Compares in the order weights, samples, forward, backward, gradients, update.
[[nodiscard]] StepDifference first_difference(const StepRecord& a, const StepRecord& b);

}  // namespace lockstep::worker
