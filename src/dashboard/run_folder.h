// SPDX-License-Identifier: Apache-2.0
// The data of one run for the page. Thread-safe.
#pragma once

#include <chrono>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "dashboard/digest_file.h"
#include "dashboard/live_ranks.h"
#include "dashboard/run_log.h"

namespace lockstep::dashboard {

/// A part of a rank's log file.
struct LogPart {
  int attempt = 0;
  int rank = 0;
  std::string stream = "stderr";  ///< "stderr" or "stdout"
  std::int64_t from = -1;         ///< the first byte; if negative, the last 64 KB are read
};

class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path folder);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }

  /// Returns the values that change constantly: ranks and position in the log. Calls within 100 ms share a result.
  [[nodiscard]] nlohmann::json live();
  /// Returns diagnosis, attempts, checkpoints, settings, summary, report, events, images, curve names, the time of the
  /// network's export, digests, and the last step that the guard has verified.
  [[nodiscard]] nlohmann::json state();
  /// Returns compare_chains() of this run and `other`; null if either has no digests.
  [[nodiscard]] nlohmann::json compare(RunFolder& other);
  [[nodiscard]] nlohmann::json curve(const std::string& name, const CurveWindow& window, double smooth);
  [[nodiscard]] nlohmann::json timeline(double seconds);
  /// Returns {"text", "next", "size"}.
  [[nodiscard]] nlohmann::json log_part(const LogPart& part) const;
  /// Returns the content of an image that state() names; none if there is no such image.
  [[nodiscard]] std::optional<std::string> picture(const std::string& name) const;
  /// Returns the folder's model.onnx; none if it is missing or larger than 1 GiB.
  [[nodiscard]] std::optional<std::string> network() const;
  /// Returns the folder of a checkpoint that state() names; none if there is no such checkpoint.
  [[nodiscard]] std::optional<std::filesystem::path> checkpoint(const std::string& name) const;

 private:
  std::filesystem::path folder_;
  std::string name_;
  std::mutex mutex_;
  RunLog log_;
  DigestFile digests_;
  LiveRanks ranks_;
  nlohmann::json live_;
  std::chrono::steady_clock::time_point live_until_{};
};

}  // namespace lockstep::dashboard
