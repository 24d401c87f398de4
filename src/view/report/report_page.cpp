// SPDX-License-Identifier: Apache-2.0
// Writes the step report as human-readable lines.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <sstream>

#include "lockstep/base/text.h"
#include "lockstep/view/step_report.h"
#include "lockstep/view/table.h"
#include "view/report/rules.h"

namespace lockstep::view {
namespace {

constexpr std::size_t kAllShown = 8;
constexpr std::size_t kSlowestShown = 4;

std::string share_words(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f} %", percent(part / whole)) : std::string("-");
}

std::string step_time(double seconds, std::int64_t steps) {
  if (steps == 0) return "-";
  const double ms = 1000 * seconds / static_cast<double>(steps);
  return fmt::format("{:.{}f} ms", ms, ms < 10 ? 2 : ms < 100 ? 1 : 0);
}

bool is_shown(StepPart part, const Ranks& ranks) {
  if (part != StepPart::kSave && part != StepPart::kEvaluate) return true;
  return std::any_of(ranks.begin(), ranks.end(),
                     [part](const RankFigures& rank) { return rank.time_in(part) >= 0.005 * rank.seconds; });
}

// A part with a smaller share does not explain a slow step.
constexpr double kMuch = 0.1;

/// Returns a part's position among the columns to omit if the table is too wide; 0 if it stays.
int left_out_as(StepPart part, const Ranks& ranks) {
  if (part == StepPart::kOther) {
    const bool is_much = std::any_of(ranks.begin(), ranks.end(), [](const RankFigures& rank) {
      return rank.time_in(StepPart::kOther) >= kMuch * rank.seconds;
    });
    return is_much ? 1 : 5;
  }
  if (part == StepPart::kSave) return 3;
  return part == StepPart::kEvaluate ? 2 : 0;
}

std::vector<Column> columns_for(const Ranks& ranks) {
  std::vector<Column> columns = {{.title = "rank", .width = 4}, {.title = "step", .width = 8, .leave_out = 4}};
  for (std::size_t i = 0; i < kParts; ++i) {
    const auto part = static_cast<StepPart>(i);
    if (!is_shown(part, ranks)) continue;
    columns.push_back({.title = part == StepPart::kExposed ? "comm" : name_of(part),
                       .width = 5,
                       .leave_out = left_out_as(part, ranks)});
  }
  columns.push_back({.title = "memory", .width = 8});
  return columns;
}

std::vector<std::string> cells_of(const std::string& name, const RankFigures& rank, const Ranks& ranks) {
  std::vector<std::string> cells = {name, step_time(rank.training(), rank.steps)};
  for (std::size_t i = 0; i < kParts; ++i) {
    if (is_shown(static_cast<StepPart>(i), ranks)) cells.push_back(share_words(rank.parts[i], rank.seconds));
  }
  const std::int64_t memory = rank.device > 0 ? rank.device : rank.resident;
  cells.push_back(text::bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(memory, 0))));
  return cells;
}

/// Returns the ranks to show: all, or the ranks that the others wait for.
std::vector<std::size_t> shown_ranks(const Ranks& ranks) {
  std::vector<std::size_t> order(ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (ranks.size() <= kAllShown) return order;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return ranks[a].share(StepPart::kExposed) < ranks[b].share(StepPart::kExposed);
  });
  order.resize(kSlowestShown);
  return order;
}

/// Returns the median of each metric, to represent the ranks without a row.
RankFigures median_rank(const Ranks& ranks) {
  RankFigures middle;
  const auto median = [&](const RankValue& figure) { return median_of(ranks, figure); };
  middle.steps = static_cast<std::int64_t>(median([](const auto& r) { return static_cast<double>(r.steps); }));
  middle.seconds = median([](const auto& rank) { return rank.seconds; });
  for (std::size_t i = 0; i < kParts; ++i) {
    middle.parts[i] = median([i](const auto& rank) { return rank.parts[i]; });
  }
  middle.resident = static_cast<std::int64_t>(median([](const auto& r) { return static_cast<double>(r.resident); }));
  middle.device = static_cast<std::int64_t>(median([](const auto& r) { return static_cast<double>(r.device); }));
  return middle;
}

/// Wraps `words` at spaces; the first line begins with `first`, later lines with the same number of spaces.
std::string wrapped(const std::string& first, const std::string& words, int width) {
  std::string lines;
  std::string line = first;
  bool is_empty = true;
  std::istringstream in(words);
  for (std::string word; in >> word;) {
    if (!is_empty && display_width(line) + 1 + display_width(word) > width) {
      lines += line + "\n";
      line = std::string(first.size(), ' ');
      is_empty = true;
    }
    line += (is_empty ? "" : " ") + word;
    is_empty = false;
  }
  return lines + line + "\n";
}

}  // namespace

std::string findings_text(const std::vector<Finding>& findings, int width) {
  std::string page;
  for (const Finding& each : findings) {
    page += wrapped("finding  ", each.sentence, width) + wrapped("advice   ", each.advice, width);
  }
  return page;
}

std::string report_text(const StepReport& report, int width) {
  if (report.ranks.empty()) return "";
  Table table(columns_for(report.ranks), width);
  std::string page = table.header();
  const std::vector<std::size_t> shown = shown_ranks(report.ranks);
  for (const std::size_t i : shown) {
    page += table.row(cells_of(std::to_string(report.ranks[i].rank), report.ranks[i], report.ranks));
  }
  if (shown.size() < report.ranks.size()) {
    page += table.row(cells_of("all", median_rank(report.ranks), report.ranks));
    page += fmt::format("the {} ranks that the others wait for, and the median of all {}\n", shown.size(),
                        report.ranks.size());
  }
  return page + findings_text(report.findings, width);
}

}  // namespace lockstep::view
