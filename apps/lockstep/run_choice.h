// SPDX-License-Identifier: Apache-2.0
// Chooses the run folder of `lockstep train` and the checkpoint it resumes from, before any rank starts, because the
// agent writes its logs to that folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/base/file_system.h"

namespace lockstep::apps {

/// The user's choices, and the parts of the default folder's name.
struct RunRequest {
  std::string name;                    ///< the recipe's name, such as "captcha"
  std::string time;                    ///< start of the run, from time_stamp()
  std::optional<std::string> run_dir;  ///< --run-dir
  bool experiment = false;             ///< true: run_dir is an experiment's, whose config.yml is not a run's
  std::string resume = "none";         ///< --resume: none, auto, a run folder, a step folder or RUN:NAME
  std::filesystem::path runs = "runs";
};

struct RunChoice {
  std::filesystem::path run_dir;
  std::string note;  ///< note on a choice that the user did not make; empty: none
};

/// With `auto` and no --run-dir it chooses the newest <runs>/<name>-<time> that holds a run, otherwise a new folder.
/// With a path it chooses the run folder that contains the path. Creates the folder if it chose the name, so that runs
/// started together get different folders.
/// Throws: UsageError if the folder holds another run (the error names the process that is training in it) or --resume
/// is a URL; DataError if the path is missing.
[[nodiscard]] RunChoice choose_run(const RunRequest& request, FileSystem& files);

/// True if both paths name the same folder, which may be missing.
[[nodiscard]] bool is_same_folder(const std::filesystem::path& a, const std::filesystem::path& b);

/// Creates the run folder. If no rank could train in it, reports one error instead of one per rank. Another run may
/// still begin before the ranks start: RunFolder (in the train module) checks again.
/// Throws: UsageError naming another process that is training in it; IoError if it cannot be written.
void require_usable(const std::filesystem::path& run_dir);

}  // namespace lockstep::apps
