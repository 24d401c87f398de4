// SPDX-License-Identifier: Apache-2.0
// The content of a run's log.jsonl, read as it grows.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "dashboard/decimate.h"
#include "dashboard/line_reader.h"
#include "lockstep/view/run_curves.h"

namespace lockstep::dashboard {

class RunLog {
 public:
  explicit RunLog(const std::filesystem::path& folder);

  /// Reads new lines, a few MB at most: a large log takes several calls. Returns true if there were new lines.
  bool update();

  /// Returns {"read", "size", "step", "points"}: the position in the file, and the data so far.
  [[nodiscard]] nlohmann::json progress() const;
  /// Returns the names of all curves, most important first.
  [[nodiscard]] nlohmann::json names() const;
  /// Returns {"total", "raw", "smooth"} of a curve: its number of points, and "steps", "values" and "seconds" of the
  /// logged points and of the smoothed points; "smooth" is null if the weight is 0. "seconds" is the training time,
  /// interpolated between the ends of the logged epochs; null before the end of the first epoch.
  [[nodiscard]] nlohmann::json curve(const std::string& name, const CurveWindow& window, double smooth) const;
  /// Returns the events that are neither steps nor reports, oldest first.
  [[nodiscard]] nlohmann::json events() const;
  /// Returns {"step", "metrics"} of the last epoch that was evaluated, with [name, value] of each metric, the task's
  /// main one first; null if there was no evaluation. A value that is not finite is null.
  [[nodiscard]] const nlohmann::json& evaluation() const noexcept { return evaluation_; }
  /// Returns the last step that the guard has verified; null if the guard is off or not available.
  [[nodiscard]] const nlohmann::json& proved() const noexcept { return proved_; }
  /// Returns the last report on how long the parts of a step take; null if there is no report.
  [[nodiscard]] const nlohmann::json& report() const noexcept { return report_; }

 private:
  void add(std::string_view text);
  [[nodiscard]] const view::Curve* find(const std::string& name) const;
  [[nodiscard]] nlohmann::json columns(const view::Curve& points) const;
  [[nodiscard]] nlohmann::json seconds_at(std::int64_t step) const;
  void add_epoch(const nlohmann::json& epoch);

  LineReader reader_;
  view::RunCurves curves_;
  view::Curve clock_;  // training time at the end of each epoch, in seconds
  std::deque<nlohmann::json> events_;
  nlohmann::json report_;
  nlohmann::json evaluation_;
  nlohmann::json proved_;
  std::int64_t step_ = 0;
};

}  // namespace lockstep::dashboard
