// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a run are: their sections, collectives and processes, of the newest attempt.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "dashboard/ring_file.h"

namespace lockstep::dashboard {

/// Returns the numbered folders `prefix`N of `parent`, by number.
[[nodiscard]] std::map<int, std::filesystem::path> numbered(const std::filesystem::path& parent,
                                                            const std::string& prefix);

/// Returns the folder in which the attempts are: RUN/logs, or RUN itself.
[[nodiscard]] std::filesystem::path logs_folder(const std::filesystem::path& run);

class LiveRanks {
 public:
  explicit LiveRanks(std::filesystem::path run) : run_(std::move(run)) {}

  /// Returns {"attempt", "ranks": [{"rank", "pid", "alive", "state", "step", "sections", "lanes", ...}]}.
  [[nodiscard]] nlohmann::json state();

  /// Returns what the ranks did in the last `seconds` before their newest event:
  /// {"start", "end", "names", "ranks": [{"rank", "spans": [[begin, end, name, kind, step, bytes, bucket, depth]]}]}.
  /// Times are ms since "start", which is CLOCK_REALTIME in ms; kind 0 is a section, 1 a collective, 2 one that failed.
  [[nodiscard]] nlohmann::json timeline(double seconds);

 private:
  void look();

  std::filesystem::path run_;
  int attempt_ = -1;
  std::map<int, std::unique_ptr<RingFile>> rings_;
};

}  // namespace lockstep::dashboard
