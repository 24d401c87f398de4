// SPDX-License-Identifier: Apache-2.0
// The steps of one rank's flight ring. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/flight/snapshot.h"
#include "lockstep/schedule/workload.h"

namespace lockstep::launch {

struct RingStep {
  schedule::MeasuredStep step;
  double seconds = 0;  ///< with all waits
};

/// Returns the steps of a ring, oldest first. Those with an evaluation or a save, and those whose collectives the ring
/// no longer has whole, are left out.
[[nodiscard]] std::vector<RingStep> steps_of(const flight::Snapshot& ring);

}  // namespace lockstep::launch
