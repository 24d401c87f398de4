// SPDX-License-Identifier: Apache-2.0
// In which folder `lockstep train` runs, and what it resumes from. Decided before any rank starts, because the agent
// writes its logs into that folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/base/file_system.h"

namespace lockstep::apps {

/// What a person said, and what the default folder is made of.
struct RunRequest {
  std::string name;                    ///< "captcha"
  std::string time;                    ///< as time_stamp()
  std::optional<std::string> run_dir;  ///< --run-dir
  bool experiment = false;             ///< run_dir is an experiment's folder: its config.yml is no run's
  std::string resume = "none";         ///< --resume: none, auto, a run folder, a step folder or RUN:NAME
  std::filesystem::path runs = "runs";
};

struct RunChoice {
  std::filesystem::path run_dir;
  std::string note;  ///< what the person did not say and wants to know; empty: nothing
};

/// With `auto` and no --run-dir the newest <runs>/<name>-<time> that holds a run, else a new one; with a path the run
/// folder that it lies in. It makes a folder that it names itself, so that runs which start at once get one each.
/// Throws: UsageError where the folder holds another run (who trains in it is named) or --resume is a URL, DataError
/// where the path is missing.
[[nodiscard]] RunChoice choose_run(const RunRequest& request, FileSystem& files);

/// Both paths are of one folder, which may be missing.
[[nodiscard]] bool is_same_folder(const std::filesystem::path& a, const std::filesystem::path& b);

/// Makes the run folder and refuses one in which no rank could train: said once, before there are ranks to say it. A
/// run may begin in between, so RunFolder of module train has the last word.
/// Throws: UsageError where another process, which is named, trains in it; IoError where it cannot be written.
void require_usable(const std::filesystem::path& run_dir);

}  // namespace lockstep::apps
