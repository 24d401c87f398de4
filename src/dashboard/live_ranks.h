// SPDX-License-Identifier: Apache-2.0
// The state of the ranks in a run's newest attempt: their sections, collectives and processes.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "lockstep/flight/snapshot.h"

namespace lockstep::dashboard {

/// A rank's flight ring, mapped once and read while the rank writes it. While the launcher is alive, the file is a link
/// to the launcher's memory, which is mapped. When the launcher ends, it leaves a copy, which is read instead.
class RingFile {
 public:
  explicit RingFile(std::filesystem::path file) : file_(std::move(file)) {}
  ~RingFile();
  RingFile(const RingFile&) = delete;
  RingFile& operator=(const RingFile&) = delete;

  /// Returns the rank's current state, without events; none if the ring is missing or has not been started.
  [[nodiscard]] std::optional<flight::Snapshot> state();
  /// Returns the rank's current state and events.
  [[nodiscard]] std::optional<flight::Snapshot> events();

 private:
  [[nodiscard]] bool is_link() const;
  [[nodiscard]] bool map();
  void unmap();

  std::filesystem::path file_;
  std::string target_;  // the target of the mapped link
  const flight::Ring* ring_ = nullptr;
  std::optional<flight::Snapshot> kept_;
  std::filesystem::file_time_type kept_time_;
};

/// Returns the numbered folders `prefix`N of `parent`, by number.
[[nodiscard]] std::map<int, std::filesystem::path> numbered(const std::filesystem::path& parent,
                                                            const std::string& prefix);

/// Returns the folder of the attempts: RUN/logs, or RUN itself.
[[nodiscard]] std::filesystem::path logs_folder(const std::filesystem::path& run);

class LiveRanks {
 public:
  explicit LiveRanks(std::filesystem::path run) : run_(std::move(run)) {}

  /// Returns {"attempt", "ranks": [{"rank", "pid", "alive", "state", "step", "sections", "lanes", ...}]}.
  [[nodiscard]] nlohmann::json state();

  /// Returns the activity of the ranks in the last `seconds` before their newest event:
  /// {"start", "end", "names", "ranks": [{"rank", "spans": [[begin, end, name, kind, step, bytes, bucket, depth]]}]}.
  /// Times are ms since "start", which is CLOCK_REALTIME in ms; kind is 0 for a section, 1 for a collective, 2 for a
  /// failed collective.
  [[nodiscard]] nlohmann::json timeline(double seconds);

 private:
  void look();

  std::filesystem::path run_;
  int attempt_ = -1;
  std::map<int, std::unique_ptr<RingFile>> rings_;
};

}  // namespace lockstep::dashboard
