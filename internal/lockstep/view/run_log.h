// SPDX-License-Identifier: Apache-2.0
// The lines of a run's log.jsonl, one JSON object each. A Trainer writes them, and every display of a run reads them.
// Pure functions: no disk.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/json.h"

#pragma GCC visibility push(default)

namespace lockstep::view {

/// The log's name in a run folder.
inline constexpr const char* kRunLog = "log.jsonl";

/// The content of a line.
struct LogLine {
  std::string event = {};                 ///< "step", "epoch", "report", "stop", ...; empty: the line has no event
  std::optional<std::int64_t> step = {};  ///< none: the line has no step
  nlohmann::json json = {};               ///< the whole object
};

/// Returns the line with `entries`, whose values are JSON (text::json_quote for strings). It ends with a newline.
[[nodiscard]] std::string log_line(const std::vector<std::pair<std::string, std::string>>& entries);

/// Reads a line; returns none if it is not a JSON object, such as the torn last line of a killed process.
[[nodiscard]] std::optional<LogLine> parse_log_line(std::string_view line);

/// Calls `use` with every line of `text`, without its newline.
template <class Use>
void each_line(std::string_view text, const Use& use) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    use(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

/// The part of a log that a resumed run keeps.
struct KeptLog {
  std::string text = {};     ///< the lines that are kept
  std::int64_t damaged = 0;  ///< number of lines that are not a JSON object
};

/// The place from which a run resumes.
struct LogPlace {
  std::int64_t step = 0;       ///< the last step that is not repeated
  bool repeats_epoch = false;  ///< that step is the last of an epoch, whose evaluation is repeated
};

/// Returns `log` without the events "step", "epoch", "report" and "resume" after the place, the events "refresh" at or
/// after its step, and lines that are not a JSON object. If an evaluation is repeated, the events "epoch" and "report"
/// of that step go, too. Every line of the result ends with a newline.
[[nodiscard]] KeptLog keep_log_up_to(std::string_view log, const LogPlace& place);

}  // namespace lockstep::view

#pragma GCC visibility pop
