// SPDX-License-Identifier: Apache-2.0
// Weights that another program kept in an experiment's folder. Free of libtorch.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

namespace lockstep::cli {

/// What `--resume 27` means in an experiment's folder: FOLDER/snapshot/caption_model_27.pth, the origin's weights after
/// its epoch 27. Empty: `resume` is no number, or there is no such file.
[[nodiscard]] inline std::filesystem::path snapshot_of(const std::filesystem::path& folder, const std::string& resume) {
  const bool is_number = !resume.empty() && resume.size() < 10 &&
                         std::all_of(resume.begin(), resume.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (folder.empty() || !is_number) return {};
  std::filesystem::path file = folder / "snapshot" / ("caption_model_" + resume + ".pth");
  std::error_code problem;
  return std::filesystem::is_regular_file(file, problem) ? file : std::filesystem::path();
}

}  // namespace lockstep::cli
