// SPDX-License-Identifier: Apache-2.0
// `lockstep inspect flight`: what each rank of a run did last, while it runs, hangs, or after it was killed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/flight/snapshot.h"
#include "worker/commands.h"

namespace lockstep::worker {

int inspect_flight(const Arguments& arguments);

/// The rings below `path`: a ring, a rank's log folder, an attempt's, or the newest attempt of a run. By rank.
/// Throws: DataError where there is none, saying where it looked.
[[nodiscard]] std::vector<std::filesystem::path> find_rings(const std::filesystem::path& path);

/// A line for each rank: where it is, and the collectives that it is in. `now_ns`: CLOCK_MONOTONIC; 0: the run is over,
/// and times count to the newest event. Pure function.
[[nodiscard]] std::string state_text(const std::vector<flight::Snapshot>& ranks, std::int64_t now_ns);

/// The last `count` events of all ranks, on one clock where they ran on one host. Pure function.
[[nodiscard]] std::string events_text(const std::vector<flight::Snapshot>& ranks, std::size_t count);

/// One JSON object a line for each event. Pure function.
[[nodiscard]] std::string events_json(const std::vector<flight::Snapshot>& ranks);

}  // namespace lockstep::worker
