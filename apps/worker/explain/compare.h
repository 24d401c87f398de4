// SPDX-License-Identifier: Apache-2.0
// Finds the first difference between two records of a step that should be equal. Pure functions.
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
  int replica = -1;                   ///< replica of the batch that differs; -1: all replicas
  std::string layer;                  ///< the operator's module, or the gradient's parameter; "": unknown
  std::string a;                      ///< operator, sample or value in A
  std::string b;                      ///< operator, sample or value in B; if the name is the same, the result differs
  std::vector<SampleRecord> samples;  ///< samples of the replica's batch in A
  std::vector<std::pair<std::string, std::string>> changed;  ///< samples whose content differs: the names in A and in B

  [[nodiscard]] bool any() const { return part != Part::kNone; }
};

/// Returns the part's name: "forward", "samples", ...
[[nodiscard]] std::string part_name(Part part);

/// Compares in the order weights, samples, forward, backward, gradients, update.
[[nodiscard]] StepDifference first_difference(const StepRecord& a, const StepRecord& b);

}  // namespace lockstep::worker
