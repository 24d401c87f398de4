// SPDX-License-Identifier: Apache-2.0
// The log files of one node's ranks:
// <folder>/attempt_<n>/rank-<r>/{stdout.log,stderr.log,error.json,flight.ring,stack.txt}.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/fault.h"
#include "lockstep/base/file_system.h"

namespace lockstep::launch {

class LogFolder {
 public:
  /// If `folder` is empty, creates a temporary folder that no other launcher removes while this object lives. Throws:
  /// IoError.
  explicit LogFolder(std::filesystem::path folder);
  /// A temporary folder that was not removed is kept, along with those of this user's last failed runs.
  ~LogFolder();
  LogFolder(const LogFolder&) = delete;
  LogFolder& operator=(const LogFolder&) = delete;

  [[nodiscard]] bool is_temporary() const noexcept { return is_temporary_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return folder_; }
  [[nodiscard]] std::filesystem::path rank_folder(int attempt, int rank) const;
  /// Returns the first attempt number that has no folder for this rank, so that earlier runs keep their logs.
  [[nodiscard]] int first_free_attempt(int rank) const;
  /// Removes a temporary folder. Never throws.
  void remove() noexcept;

 private:
  std::filesystem::path folder_;
  bool is_temporary_ = false;
  bool is_removed_ = false;
  UniqueFd lock_;
};

/// One rank's two log files.
class RankLog {
 public:
  /// Creates the folder and both files, which only this user can access. Throws: IoError.
  explicit RankLog(std::filesystem::path folder);

  /// Writes to the log of `stream` (0 stdout, 1 stderr). A disk error is reported once, and the rank continues.
  void write(int stream, std::string_view bytes);
  [[nodiscard]] std::filesystem::path file(int stream) const {
    return folder_ / (stream == 0 ? "stdout.log" : "stderr.log");
  }
  [[nodiscard]] std::filesystem::path error_file() const { return folder_ / "error.json"; }
  [[nodiscard]] std::filesystem::path flight_file() const { return folder_ / "flight.ring"; }
  /// Returns the file for the rank's own report of its stack (lockstep/base/fault.h).
  [[nodiscard]] std::filesystem::path stack_file() const { return folder_ / fault::kStackFile; }

 private:
  std::filesystem::path folder_;
  UniqueFd files_[2];
  bool has_failed_ = false;
};

/// Returns the last lines of a file, without overwritten text or colours; empty if there is no file.
[[nodiscard]] std::vector<std::string> last_lines(const std::filesystem::path& file, std::size_t count);

}  // namespace lockstep::launch
