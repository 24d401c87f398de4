// SPDX-License-Identifier: Apache-2.0
// The limits on a setting's values: ranges, units, choices.
#include <fmt/format.h>

#include <cmath>

#include "lockstep/base/config.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

constexpr double kExact = 9007199254740992.0;  // 2^53: above it, a double cannot represent every whole number

std::string text_of(double number) {
  const bool whole = std::floor(number) == number && std::abs(number) < kExact;
  return whole ? text::thousands(static_cast<std::int64_t>(number)) : fmt::format("{}", number);
}

std::string with_unit(const std::string& numbers, const std::string& unit) {
  return unit.empty() ? numbers : numbers + " " + unit;
}

}  // namespace

bool ConfigRange::contains(double value) const noexcept {
  const bool enough = above ? value > least : value >= least;
  const bool not_too_much = below ? value < most : value <= most;
  return enough && not_too_much;
}

std::string ConfigRange::text() const {
  const bool has_least = std::isfinite(least);
  const bool has_most = std::isfinite(most);
  if (has_least && has_most && !above && !below) return fmt::format("{} .. {}", text_of(least), text_of(most));
  std::string words;
  if (has_least) words = above ? "above " + text_of(least) : text_of(least) + " or more";
  if (has_least && has_most) words += ", ";
  if (has_most) words += below ? "below " + text_of(most) : "at most " + text_of(most);
  return words;
}

ConfigFields::Field& ConfigFields::Field::in(const ConfigRange& numbers, std::string unit_name) {
  range = numbers;
  unit = std::move(unit_name);
  return *this;
}

ConfigFields::Field& ConfigFields::Field::at_resume(OnResume rule) {
  resume = rule;
  return *this;
}

ConfigFields::Field& ConfigFields::Field::per_host() {
  host = true;
  return *this;
}

ConfigFields::Field& ConfigFields::Field::tuned() {
  tune = true;
  return *this;
}

std::string ConfigFields::Field::allowed() const {
  if (!choices.empty()) return text::join(choices);
  if (std::holds_alternative<bool*>(target)) return "true, false";
  std::string words = range ? with_unit(range->text(), unit) : unit;
  if (std::holds_alternative<AutoInt*>(target)) words += words.empty() ? "auto" : ", or auto";
  return words;
}

}  // namespace lockstep
