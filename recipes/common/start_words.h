// SPDX-License-Identifier: Apache-2.0
// The settings of a recipe that `lockstep train` must know before a rank reads them: the run's folder. A recipe
// declares them in its start_words.h. Header-only, without libtorch.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace lockstep::common {

/// Setting keys, given on the command line or in the settings file; empty if the recipe has no such setting.
struct StartWords {
  std::string_view run_folder = {};      ///< the run's folder, like --run-dir
  std::string_view folder_of_runs = {};  ///< the folder in which the run's folder is created, instead of runs
  std::string_view experiment = {};      ///< a folder with the user's own config.yml for the run
  std::string_view snapshot = {};        ///< file in that folder with the weights after an epoch; {} is the epoch
};

/// Returns the file that `--resume 27` means in an experiment's folder: the weights that the original code saved after
/// epoch 27. Empty if `resume` is not a number or there is no such file.
[[nodiscard]] inline std::filesystem::path snapshot_of(const StartWords& words, const std::filesystem::path& folder,
                                                       const std::string& resume) {
  const bool is_number = !resume.empty() && resume.size() < 10 &&
                         std::all_of(resume.begin(), resume.end(), [](char c) { return c >= '0' && c <= '9'; });
  const auto place = words.snapshot.find("{}");
  if (folder.empty() || !is_number || place == std::string_view::npos) return {};
  std::filesystem::path file = folder / std::string(words.snapshot).replace(place, 2, resume);
  std::error_code problem;
  return std::filesystem::is_regular_file(file, problem) ? file : std::filesystem::path();
}

}  // namespace lockstep::common
