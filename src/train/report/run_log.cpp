// SPDX-License-Identifier: Apache-2.0
#include "train/report/run_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/base/json.h"

namespace lockstep::train {
namespace {

enum class Line { kKept, kOfALaterStep, kDamaged };

Line judge(std::string_view line, std::int64_t last_step) {
  const auto json = json_or_null(line);
  if (!json.is_object()) return Line::kDamaged;
  const auto event = json.find("event");
  const auto step = json.find("step");
  if (event == json.end() || step == json.end() || !step->is_number_integer()) return Line::kKept;
  const auto number = step->get<std::int64_t>();
  // It comes after the step's checkpoint, and before the next step.
  if (*event == "refresh") return number >= last_step ? Line::kOfALaterStep : Line::kKept;
  const bool is_counted = *event == "step" || *event == "epoch" || *event == "report" || *event == "resume";
  return is_counted && number > last_step ? Line::kOfALaterStep : Line::kKept;
}

}  // namespace

KeptLog keep_log_up_to(std::string_view log, std::int64_t step) {
  KeptLog kept;
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    const Line verdict = judge(line, step);
    if (verdict == Line::kDamaged) ++kept.damaged;
    if (verdict == Line::kKept) kept.text.append(line).append("\n");
  }
  return kept;
}

}  // namespace lockstep::train
