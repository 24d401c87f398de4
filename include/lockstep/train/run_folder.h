// SPDX-License-Identifier: Apache-2.0
// The folder of one training run: config.yml, log.jsonl, summary.json, checkpoints/, logs/. It is locked while in use.
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

/// How to treat an existing folder.
struct RunFolderOptions {
  bool resume = false;  ///< the folder may hold a run; it may also be empty or missing
  /// The folder belongs to an experiment. The user wrote its config.yml, so the run's settings go to
  /// config.resolved.yml. A link `snapshot` to `checkpoints` is created, unless something has that name.
  bool experiment = false;
  /// How long a restarted run waits while a process of the previous attempt, such as one hung in the kernel, still
  /// holds the lock. 0: there was no previous attempt.
  std::chrono::milliseconds wait_for_lock{0};
};

/// A run's folder. Only rank 0 opens it. Thread-safe: no.
class RunFolder {
 public:
  /// Creates and locks the folder, removes unfinished files of dead writers, and makes their completed renames durable.
  /// Throws: UsageError if it holds an earlier run (without `resume`), is a file, or is locked by another process,
  ///         which the message names; TimeoutError if it stays locked for `wait_for_lock`; IoError if it cannot be
  ///         written.
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

  /// Checks that the path still names the folder that was opened: a write to a removed folder is lost without an error.
  /// Cost: a system call. Throws: IoError if the path names nothing or a different folder.
  void require_there() const;

  /// Replaces a file atomically. Throws: IoError.
  void write(const std::string& name, std::string_view content);

  /// Appends one JSON object as a line to log.jsonl. Values must already be JSON (use text::json_quote for strings).
  /// Throws: IoError, without a partial line in the log.
  void log(const std::vector<std::pair<std::string, std::string>>& entries);

  /// Prepares log.jsonl for a run that resumes from `step`. It removes the events of later steps
  /// (view::keep_log_up_to()), so that each step occurs once. With `repeats_epoch`, the run resumes before
  /// the evaluation after that step, and the events of this evaluation go, too. It also removes, with a note, lines
  /// that are not a JSON object: a killed run leaves one at the end. The log is read in pieces, so it may be larger
  /// than memory. Throws: IoError, with an unchanged log.
  void drop_log_after(std::int64_t step, bool repeats_epoch = false);

  /// Returns "runs/captcha-20261121-093000".
  [[nodiscard]] static std::filesystem::path default_path(const std::string& recipe);

  /// Returns true if a run has written its settings or a checkpoint.
  [[nodiscard]] static bool holds_a_run(const std::filesystem::path& path, bool experiment = false);

 private:
  void open_log();
  void link_snapshots() const;
  void sync_names() const;

  std::filesystem::path path_;
  bool experiment_;
  std::pair<std::uint64_t, std::uint64_t> identity_;  ///< device and inode
  UniqueFd lock_;
  UniqueFd log_;
};

}  // namespace lockstep

#pragma GCC visibility pop
