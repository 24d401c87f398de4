// SPDX-License-Identifier: Apache-2.0
// The folder of one training run: config.yml, log.jsonl, summary.json, checkpoints/, logs/. Locked while in use.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/file_system.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The treatment of a folder that exists.
struct RunFolderOptions {
  bool resume = false;  ///< a folder that holds a run is valid; so is one that is empty or missing
  /// The folder is an experiment's. Its config.yml is the user's own, so the run's settings go to config.resolved.yml.
  /// `snapshot` becomes another name of `checkpoints`, unless something has that name.
  bool experiment = false;
  /// How long a group that was started again waits for a process of the group before that still holds the lock, such as
  /// one that hangs in the kernel. 0: no group came before.
  std::chrono::milliseconds wait_for_lock{0};
};

/// A run's folder. Only rank 0 opens it. Thread-safe: no.
class RunFolder {
 public:
  /// Creates and locks the folder, and removes unfinished files of writers that died.
  /// Throws: UsageError if it holds an earlier run (without `resume`), is a file, or another process, which the message
  ///         names, trains in it; TimeoutError if that process held it for all of `wait_for_lock`; IoError if it cannot
  ///         be written.
  explicit RunFolder(std::filesystem::path path, const RunFolderOptions& options = {});

  /// Returns the folder.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Returns the folder of the checkpoints.
  [[nodiscard]] std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  /// Returns the name of the file with the run's settings.
  [[nodiscard]] static std::string settings_file(bool experiment) {
    return experiment ? "config.resolved.yml" : "config.yml";
  }
  /// Returns the name of the file with this run's settings.
  [[nodiscard]] std::string settings_file() const { return settings_file(experiment_); }

  /// Checks that the folder is still the one that was opened: a write to a removed folder is lost without an error.
  /// Cost: a system call. Throws: IoError if its path names nothing, or another folder.
  void require_there() const;

  /// Replaces a file whole or not at all. Throws: IoError.
  void write(const std::string& name, std::string_view content);

  /// Appends one JSON object as a line to log.jsonl. Values are already JSON (text::json_quote for strings).
  /// Throws: IoError; no part of the line is then in the log.
  void log(const std::vector<std::pair<std::string, std::string>>& entries);

  /// Prepares log.jsonl for a run that resumes from `step`. It removes the events "step", "epoch", "refresh" and
  /// "resume" of later steps, so that each step occurs once. It also removes, with a note, lines that are no JSON
  /// object: a kill leaves one at the end. Throws: IoError; the log is then as before.
  void drop_log_after(std::int64_t step);

  /// Returns "runs/captcha-20261121-093000".
  [[nodiscard]] static std::filesystem::path default_path(const std::string& recipe);

  /// Returns true if a run has written its settings or a checkpoint.
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
