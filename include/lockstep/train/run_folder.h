// SPDX-License-Identifier: Apache-2.0
// The folder of one training run: config.yml, log.jsonl, summary.json, checkpoints/, logs/. Locked while in use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/file_system.h"

#pragma GCC visibility push(default)

namespace lockstep {

struct RunFolderOptions {
  bool resume = false;  ///< a folder that holds a run is welcome; so is one that is empty or missing
  /// The folder is an experiment's: config.yml in it is the user's own, so that the run's settings are written to
  /// config.resolved.yml; `snapshot` is another name of `checkpoints`, unless there is something of that name.
  bool experiment = false;
};

/// Only rank 0 opens it. Not thread-safe.
class RunFolder {
 public:
  /// Makes and locks the folder, and removes what writers that died left half written.
  /// Throws: UsageError where it holds an earlier run (without `resume`), is a file, or another process, which is
  /// named, trains in it; IoError where it cannot be written.
  explicit RunFolder(std::filesystem::path path, const RunFolderOptions& options = {});

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  /// The name of the file with the run's settings.
  [[nodiscard]] static std::string settings_file(bool experiment) {
    return experiment ? "config.resolved.yml" : "config.yml";
  }
  [[nodiscard]] std::string settings_file() const { return settings_file(experiment_); }

  /// The folder is still the one that was opened: what is written to a removed one is lost without an error. Cost: a
  /// system call. Throws: IoError where its path names nothing, or another folder.
  void require_there() const;

  /// Replaces a file whole or not at all. Throws: IoError.
  void write(const std::string& name, std::string_view content);

  /// Appends one JSON object as a line to log.jsonl. Values are JSON already (text::json_quote for strings).
  /// Throws: IoError; no part of the line is then in the log.
  void log(const std::vector<std::pair<std::string, std::string>>& entries);

  /// For a run that goes on from `step`: takes the events "step", "epoch", "refresh" and "resume" of later steps out of
  /// log.jsonl, and, with a note, lines that are no JSON object, as a kill leaves at the end. Each step then stands
  /// there once. Throws: IoError; the log is then as before.
  void drop_log_after(std::int64_t step);

  /// "runs/captcha-20261121-093000".
  [[nodiscard]] static std::filesystem::path default_path(const std::string& recipe);

  /// True where a run has written its settings or a checkpoint.
  [[nodiscard]] static bool holds_a_run(const std::filesystem::path& path, bool experiment = false);

 private:
  void open_log();
  void link_snapshots() const;

  std::filesystem::path path_;
  bool experiment_;
  std::pair<std::uint64_t, std::uint64_t> identity_;  ///< device and inode
  UniqueFd lock_;
  UniqueFd log_;
};

}  // namespace lockstep

#pragma GCC visibility pop
