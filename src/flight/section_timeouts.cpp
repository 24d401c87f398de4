// SPDX-License-Identifier: Apache-2.0
#include "lockstep/flight/section_timeouts.h"

#include <fmt/format.h>

#include <cstdint>

#include "lockstep/base/error.h"
#include "lockstep/base/number.h"
#include "lockstep/base/printable.h"

namespace lockstep::flight {
namespace {

constexpr double kMostSeconds = 1e9;

SectionTimeout parse_one(std::string_view part) {
  const auto sign = part.rfind('=');
  const auto seconds = text::parse_number(sign == std::string_view::npos ? "" : part.substr(sign + 1));
  if (sign == 0 || !seconds || !(*seconds >= 0 && *seconds <= kMostSeconds)) {
    throw UsageError(
        fmt::format("LOCKSTEP_SECTION_TIMEOUT: '{}' is not NAME=SECONDS", text::for_people(std::string(part))),
        "for example LOCKSTEP_SECTION_TIMEOUT=save=600,data=0 (0: no limit)");
  }
  return {section_of(part.substr(0, sign)), std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000.0))};
}

}  // namespace

std::string section_of(std::string_view name) { return name == "data" ? "DataLoader::next" : std::string(name); }

std::vector<SectionTimeout> parse_section_timeouts(std::string_view text) {
  std::vector<SectionTimeout> limits;
  while (!text.empty()) {
    const auto comma = text.find(',');
    if (comma != 0) limits.push_back(parse_one(text.substr(0, comma)));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return limits;
}

}  // namespace lockstep::flight
