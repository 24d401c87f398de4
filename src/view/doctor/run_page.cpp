// SPDX-License-Identifier: Apache-2.0
// Writes a diagnosis as a human-readable page and as JSON.
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/printable.h"
#include "lockstep/base/text.h"
#include "lockstep/view/run_diagnosis.h"
#include "lockstep/view/terminal.h"

namespace lockstep::view {
namespace {

Color color_of(RunState state) {
  switch (state) {
    case RunState::kRuns:
    case RunState::kFinished:
    case RunState::kEnded:
      return Color::kGreen;
    case RunState::kFailed:
    case RunState::kLost:
      return Color::kRed;
    default:
      return Color::kYellow;
  }
}

std::string indented(const std::vector<std::string>& lines, const char* before) {
  std::string page;
  for (const std::string& line : lines) page += before + text::printable_line(line) + "\n";
  return page;
}

std::string list_json(const std::vector<std::string>& lines) {
  std::vector<std::string> quoted;
  for (const std::string& line : lines) quoted.push_back(text::json_quote(line));
  return "[" + text::join(quoted) + "]";
}

std::string report_of(const StepReport& report) {
  constexpr int kWidth = 78;  // 80 columns, without two spaces of indentation
  std::string page = fmt::format("  where the time of steps {} to {} went\n", text::thousands(report.first_step),
                                 text::thousands(report.last_step));
  const std::string lines = report_text(report, kWidth);
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    page += "  " + text::printable_line(lines.substr(at, end - at)) + "\n";
    at = end + 1;
  }
  return page;
}

}  // namespace

std::string diagnosis_text(const RunDiagnosis& diagnosis, bool color) {
  std::string page = indented(diagnosis.earlier, "");
  page += fmt::format("{}: {}\n", paint(name_of(diagnosis.state), color_of(diagnosis.state), color),
                      text::printable_line(diagnosis.text));
  page += indented(diagnosis.details, "  ");
  if (diagnosis.report) page += report_of(*diagnosis.report);
  if (!diagnosis.stacks.empty()) page += "  stacks\n" + indented(diagnosis.stacks, "    ");
  page += indented(diagnosis.notes, "  note        ");
  page += indented(diagnosis.next, "  next        ");
  return page;
}

std::string diagnosis_json(const RunFacts& facts, const RunDiagnosis& diagnosis) {
  const auto or_null = [](bool is_there, std::string value) { return is_there ? value : std::string("null"); };
  return fmt::format(
      R"({{"run": {}, "state": "{}", "text": {}, "attempt": {}, "earlier": {}, "details": {}, "stacks": {}, )"
      R"("notes": {}, "next": {}, "step": {}, "checkpoint": {}, "report": {}}})"
      "\n",
      text::json_quote(facts.path), name_of(diagnosis.state), text::json_quote(diagnosis.text),
      or_null(!facts.attempts.empty(), facts.attempts.empty() ? "" : std::to_string(facts.attempts.back().number)),
      list_json(diagnosis.earlier), list_json(diagnosis.details), list_json(diagnosis.stacks),
      list_json(diagnosis.notes), list_json(diagnosis.next),
      or_null(facts.log.has_value(), std::to_string(facts.log ? facts.log->step : 0)),
      or_null(!facts.checkpoint.empty(), text::json_quote(facts.checkpoint)),
      or_null(diagnosis.report.has_value(), diagnosis.report ? to_json(*diagnosis.report) : ""));
}

}  // namespace lockstep::view
