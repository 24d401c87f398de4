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
  bool experiment = false;             ///< true: run_dir is an experiment's folder: config.yml is the user's
  std::string resume = "none";         ///< --resume: none, auto, a run folder, a step folder or RUN:NAME
  std::filesystem::path runs = "runs";
};

struct RunChoice {
  std::filesystem::path run_dir;
  std::string note;  ///< note on a choice that the user did not make; empty: none
};

/// With `auto` and no --run-dir, chooses the newest <runs>/<name>-<time> that holds a run, or a new folder if there is
/// none. If names lie within 26 hours, which time zones can differ by, the run that began or continued last is the
/// newest. With a path, chooses the run folder that contains the path. If it generates the folder's name, it also
/// creates the folder, so that runs started at the same time get different folders. Throws: UsageError if the folder
/// holds another run (the error names the process that is training in it) or --resume is a URL; DataError if the path
/// is missing.
[[nodiscard]] RunChoice choose_run(const RunRequest& request, FileSystem& files);

/// True if both paths name the same folder, which may be missing.
[[nodiscard]] bool is_same_folder(const std::filesystem::path& a, const std::filesystem::path& b);

/// Creates the run folder. If no rank could train in it, reports one error instead of one per rank. Another run may
/// still begin before the ranks start: RunFolder (in the train module) checks again.
/// Throws: UsageError that names the process if another one is training in the folder; IoError if the folder is not
/// writable.
void require_usable(const std::filesystem::path& run_dir);

}  // namespace lockstep::apps
