// SPDX-License-Identifier: Apache-2.0
// Trace files in Chrome's JSON format, for https://ui.perfetto.dev: one for each rank, and one for a whole run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lockstep/base/file_system.h"
#include "lockstep/view/profile.h"

#pragma GCC visibility push(default)

namespace lockstep::view {

/// Returns the trace of one rank, with a process named "rank 0 (host)" and its named threads. The collectives of each
/// group have their own track, with bucket, bytes and sequence. Times are from the rank's own clock; "otherData" holds
/// rank, world_size, clock_offset_ns and clock_error_ns for the merge.
[[nodiscard]] std::string trace_text(const Profile& profile);

/// Returns the name of a rank's file in RUN_DIR/trace: "rank-0.json".
[[nodiscard]] std::string trace_file_name(int rank);

/// The result of merge_traces().
struct MergedTrace {
  int ranks = 0;        ///< number of ranks
  int hosts = 0;        ///< number of hosts
  double error_us = 0;  ///< the largest error of any rank's clock relative to rank 0's
  std::string text;     ///< the trace of all ranks on rank 0's clock
};

/// Joins the traces of all ranks, RUN_DIR/trace/rank-0.json and so on.
/// Throws: DataError naming the ranks whose files are missing, or the file that is torn or from a different run.
[[nodiscard]] MergedTrace merge_traces(FileSystem& files, const std::filesystem::path& run_dir);

}  // namespace lockstep::view

#pragma GCC visibility pop
