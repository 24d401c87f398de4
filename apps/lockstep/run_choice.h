// SPDX-License-Identifier: Apache-2.0
// Chooses the folder of `lockstep train` and the checkpoint it resumes from, before any rank starts: the agent writes
// its logs into that folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/base/file_system.h"

namespace lockstep::apps {

/// A person's choices, and the parts of the default folder's name.
struct RunRequest {
  std::string name;                    ///< "captcha"
  std::string time;                    ///< as time_stamp()
  std::optional<std::string> run_dir;  ///< --run-dir
  bool experiment = false;             ///< run_dir is an experiment's folder: its config.yml is not a run's
  std::string resume = "none";         ///< --resume: none, auto, a run folder, a step folder or RUN:NAME
  std::filesystem::path runs = "runs";
};

struct RunChoice {
  std::filesystem::path run_dir;
  std::string note;  ///< a choice that the person did not make but wants to know; empty: none
};

/// With `auto` and no --run-dir: the newest <runs>/<name>-<time> that holds a run, else a new one. With a path: the run
/// folder that contains it. Creates the folder if it chose the name, so that runs started together get one each.
/// Throws: UsageError if the folder holds another run (the error names the process that trains in it) or --resume is a
/// URL; DataError if the path is missing.
[[nodiscard]] RunChoice choose_run(const RunRequest& request, FileSystem& files);

/// True if both paths name one folder, which may be missing.
[[nodiscard]] bool is_same_folder(const std::filesystem::path& a, const std::filesystem::path& b);

/// Creates the run folder and refuses one in which no rank could train: one error, before there are ranks to repeat it.
/// A run may begin in between, so RunFolder of module train has the last word.
/// Throws: UsageError if another process trains in it, with that process; IoError if it cannot be written.
void require_usable(const std::filesystem::path& run_dir);

}  // namespace lockstep::apps
