// SPDX-License-Identifier: Apache-2.0
// Reads the files of a run for `lockstep doctor`. Any file may be missing, truncated by a kill, or something else.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/view/run_diagnosis.h"

namespace lockstep::launch {

/// A line for each file that could not be read.
using Notes = std::vector<std::string>;

/// Returns the folders `prefix`N in `parent`, in the order of their numbers.
[[nodiscard]] std::map<int, std::filesystem::path> numbered_folders(const std::filesystem::path& parent,
                                                                    std::string_view prefix);

/// Returns the summary; if the file is missing or is not a summary, returns none and adds a line to `notes`.
[[nodiscard]] std::optional<view::RunSummary> read_summary(const std::filesystem::path& file, Notes& notes);

/// Reads a launcher's record of an attempt into `attempt`. A missing file changes nothing; a file that is not such a
/// record only adds a note.
void read_verdict(const std::filesystem::path& file, view::AttemptFacts& attempt, Notes& notes);

/// Reads the last 256 KiB of the log, since only its end matters.
[[nodiscard]] std::optional<view::RunLog> read_log(const std::filesystem::path& file, Notes& notes);

/// Returns the newest committed checkpoint of a run folder; empty if there is none. A checkpoint folder without a
/// manifest adds a note.
[[nodiscard]] std::string newest_checkpoint(const std::filesystem::path& run, Notes& notes);

/// Returns the names of the checkpoints that the guard has set aside, "step-00000006.suspect", in order.
[[nodiscard]] std::vector<std::string> suspect_checkpoints(const std::filesystem::path& run);

/// Returns true if config.yml names one of the recipes of `lockstep train`; a program may define others.
[[nodiscard]] bool names_recipe(const std::filesystem::path& settings);

}  // namespace lockstep::launch
