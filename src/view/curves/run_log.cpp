// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/run_log.h"

#include <fmt/format.h>

#include "lockstep/base/text.h"

namespace lockstep::view {
namespace {

bool is_later(const LogLine& line, const LogPlace& place) {
  if (!line.step) return false;
  // This event comes after the step's checkpoint and before the next step.
  if (line.event == "refresh") return *line.step >= place.step;
  const bool ends_epoch = line.event == "epoch" || line.event == "report";
  if (ends_epoch && place.repeats_epoch) return *line.step >= place.step;
  const bool is_counted = ends_epoch || line.event == "step" || line.event == "resume";
  return is_counted && *line.step > place.step;
}

}  // namespace

std::string log_line(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string line = "{";
  for (const auto& [key, value] : entries) {
    line += fmt::format("{}{}: {}", line.size() > 1 ? ", " : "", text::json_quote(key), value);
  }
  return line + "}\n";
}

std::optional<LogLine> parse_log_line(std::string_view text) {
  LogLine line{.json = json_or_null(text)};
  if (!line.json.is_object()) return std::nullopt;
  const auto event = line.json.find("event");
  const auto step = line.json.find("step");
  if (event != line.json.end() && event->is_string()) line.event = *event;
  if (step != line.json.end() && step->is_number_integer()) line.step = *step;
  return line;
}

KeptLog keep_log_up_to(std::string_view log, const LogPlace& place) {
  KeptLog kept;
  each_line(log, [&](std::string_view text) {
    const auto line = parse_log_line(text);
    if (!line) ++kept.damaged;
    if (line && !is_later(*line, place)) kept.text.append(text).append("\n");
  });
  return kept;
}

}  // namespace lockstep::view
