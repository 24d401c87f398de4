// SPDX-License-Identifier: Apache-2.0
// The folder of one training run: config.yml, log.jsonl, summary.json, checkpoints/, logs/. Locked while in use.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/file_system.h"

namespace lockstep {

/// Only the main rank opens it. Not thread-safe.
class RunFolder {
 public:
  /// Makes and locks the folder.
  /// Throws: UsageError where it holds an earlier run or another process trains in it; IoError.
  explicit RunFolder(std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

  /// Replaces a file whole or not at all.
  void write(const std::string& name, std::string_view content);

  /// Appends one JSON object as a line to log.jsonl. Values are JSON already (text::json_quote for strings).
  void log(const std::vector<std::pair<std::string, std::string>>& entries);

  /// "runs/captcha-20261121-093000".
  [[nodiscard]] static std::filesystem::path default_path(const std::string& recipe);

  /// True where a run has written its config.yml.
  [[nodiscard]] static bool holds_a_run(const std::filesystem::path& path);

 private:
  std::filesystem::path path_;
  UniqueFd lock_;
  UniqueFd log_;
};

}  // namespace lockstep
