// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/machine_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/printable.h"
#include "lockstep/base/text.h"
#include "lockstep/view/terminal.h"
#include "view/doctor/rules.h"

namespace lockstep::view {
namespace {

constexpr int kNameWidth = 10;
constexpr int kLeft = 4 + 2 + kNameWidth + 2;  // "warn  all-reduce  "
constexpr int kLeastText = 20;
constexpr const char* kArrow = "-> ";
constexpr int kArrowWidth = 3;

const char* word_of(Health health) { return health == Health::kOk ? "ok" : health == Health::kWarn ? "warn" : "bad"; }

Color color_of(Health health) {
  return health == Health::kOk ? Color::kGreen : health == Health::kWarn ? Color::kYellow : Color::kRed;
}

/// Returns `text` wrapped at spaces to lines of at most `width` columns.
std::string wrapped(const std::string& text, int width, int indent) {
  std::string out;
  int column = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    const int wide = display_width(word);
    if (column > 0 && column + 1 + wide > width) {
      out += "\n" + std::string(static_cast<std::size_t>(indent), ' ');
      column = 0;
    } else if (column > 0) {
      out += " ";
      ++column;
    }
    out += word;
    column += wide;
    at = end + 1;
  }
  return out + "\n";
}

template <class Facts, class... Rules>
void apply(std::vector<Check>& checks, const std::optional<Facts>& facts, Rules... rules) {
  if (facts) (checks.push_back(rules(*facts)), ...);
}

}  // namespace

void add_finding(Check& check, Health health, std::string hint) {
  check.health = std::max(check.health, health);
  check.hints.push_back(std::move(hint));
}

std::vector<Check> check_machine(const MachineFacts& facts) {
  std::vector<Check> checks;
  apply(checks, facts.cores, check_cores);
  apply(checks, facts.memory, check_memory, check_swap);
  apply(checks, facts.shared_memory, check_shared_memory);
  apply(checks, facts.limits, check_limits);
  apply(checks, facts.ports, check_ports);
  apply(checks, facts.network, check_host_name, check_interfaces);
  apply(checks, facts.clock, check_clock);
  apply(checks, facts.gpus, check_gpus);
  apply(checks, facts.gpu_links, check_gpu_links);
  apply(checks, facts.disk, check_disk);
  apply(checks, facts.all_reduce, check_all_reduce);
  for (Check& check : checks) check.value = text::printable_line(check.value);
  return checks;
}

bool is_any_bad(const std::vector<Check>& checks) {
  return std::any_of(checks.begin(), checks.end(), [](const Check& check) { return check.health == Health::kBad; });
}

std::string checks_text(const std::vector<Check>& checks, int width, bool color) {
  std::string page;
  const int room = std::max(width - kLeft, kLeastText);
  for (const Check& check : checks) {
    page += paint(pad(word_of(check.health), 4), color_of(check.health), color) + "  " + pad(check.name, kNameWidth) +
            "  " + wrapped(check.value, room, kLeft);
    for (const std::string& hint : check.hints) {
      page += std::string(kLeft, ' ') + kArrow +
              wrapped(text::printable_line(hint), room - kArrowWidth, kLeft + kArrowWidth);
    }
  }
  return page;
}

std::string checks_json(const std::vector<Check>& checks) {
  std::string lines;
  for (const Check& check : checks) {
    std::vector<std::string> hints;
    for (const std::string& hint : check.hints) hints.push_back(text::json_quote(hint));
    lines += fmt::format(R"({{"check": {}, "health": "{}", "value": {}, "hints": [{}]}})"
                         "\n",
                         text::json_quote(check.name), word_of(check.health), text::json_quote(check.value),
                         text::join(hints));
  }
  return lines;
}

}  // namespace lockstep::view
