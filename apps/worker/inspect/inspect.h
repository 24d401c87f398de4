// SPDX-License-Identifier: Apache-2.0
// The parts of `lockstep inspect` about data sets, flight rings, and the machine with its environment.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/data/survey.h"
#include "lockstep/flight/snapshot.h"
#include "lockstep/launch/gpus.h"
#include "worker/commands.h"

namespace lockstep::worker {

/// `lockstep inspect data`: counts the contents of a data set and draws a contact sheet of it.
int inspect_data(const Arguments& arguments);

/// The counts of a set as text: a summary line, a table of sizes, bars of classes, unreadable files, and remarks. Pure
/// function.
[[nodiscard]] std::string survey_text(const std::string& name, const Survey& survey,
                                      const std::vector<std::string>& class_names,
                                      const std::vector<std::string>& remarks = {});

/// The counts of a set as one JSON object. Pure function.
[[nodiscard]] std::string survey_json(const std::string& name, const Survey& survey,
                                      const std::vector<std::string>& class_names,
                                      const std::vector<std::string>& remarks = {});

/// `lockstep inspect flight`: the last events of each rank of a live, hanging or killed run.
int inspect_flight(const Arguments& arguments);

/// The flight rings below `path`, ordered by rank. `path`: a ring, a rank's log folder, an attempt's folder, or a run
/// (its newest attempt). Throws: DataError that names the folders if there is no ring.
[[nodiscard]] std::vector<std::filesystem::path> find_rings(const std::filesystem::path& path);

/// One line for each rank: how far it is in the step, and its collectives. `now_ns`: CLOCK_MONOTONIC; 0: the run is
/// over, and ages are relative to the newest event. Pure function.
[[nodiscard]] std::string state_text(const std::vector<flight::Snapshot>& ranks, std::int64_t now_ns);

/// The last `count` events of all ranks, on a common time scale if the ranks ran on one host. Pure function.
[[nodiscard]] std::string events_text(const std::vector<flight::Snapshot>& ranks, std::size_t count);

/// One JSON object per event, each on a line. Pure function.
[[nodiscard]] std::string events_json(const std::vector<flight::Snapshot>& ranks);

/// `lockstep inspect gpu` and `lockstep inspect env`: show what the GPUs are doing, and the environment variables of a
/// run.
int inspect_gpu(const Arguments& arguments);
int inspect_env(const Arguments& arguments);

/// The table of `lockstep inspect gpu`; if there is no GPU, one line that gives the reason. Pure function.
[[nodiscard]] std::string gpu_text(const GpuReport& report);

}  // namespace lockstep::worker
