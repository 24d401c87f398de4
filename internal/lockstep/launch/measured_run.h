// SPDX-License-Identifier: Apache-2.0
// The steps in the flight rings of a run, for `lockstep plan`.
#pragma once

#include <string>
#include <vector>

#include "lockstep/flight/snapshot.h"
#include "lockstep/simulate/workload.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Returns the steps in the rings of one host's ranks. A step lasts from the end of one synced backward to the end of
/// the next. Steps with an evaluation, a save or unusual collectives are skipped. It is a pure function.
/// Throws: DataError with the reason if no step is left.
[[nodiscard]] simulate::Workload workload_of(const std::vector<flight::Snapshot>& ranks);

/// Reads the rings of the newest attempt of a run folder, or of a log folder named by `lockstep run`, and the number of
/// images in a step from the run's settings or its log.
/// Throws: DataError if it has no rings, or they have no steps; UsageError for a run of one rank.
[[nodiscard]] simulate::Workload read_measured_run(const std::string& path);

}  // namespace lockstep

#pragma GCC visibility pop
