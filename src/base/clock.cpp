// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/clock.h"

#include <algorithm>
#include <array>
#include <ctime>

namespace lockstep {

const SystemClock& SystemClock::instance() {
  static const SystemClock clock;
  return clock;
}

std::string time_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", &local);
  return {text.data(), length};
}

std::string_view without_time_stamp(std::string_view name) {
  constexpr std::string_view kForm = "-dddddddd-dddddd";
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto cut = [&](std::string_view text) {
    if (text.size() < kForm.size()) return text;
    const std::string_view end = text.substr(text.size() - kForm.size());
    const bool fits = std::equal(kForm.begin(), kForm.end(), end.begin(),
                                 [&](char form, char c) { return form == 'd' ? is_digit(c) : c == form; });
    return fits ? text.substr(0, text.size() - kForm.size()) : text;
  };
  const std::string_view first = cut(name);
  const auto dash = name.rfind('-');
  if (first != name || dash == std::string_view::npos) return first;
  const std::string_view number = name.substr(dash + 1);
  if (number.empty() || !std::all_of(number.begin(), number.end(), is_digit)) return name;
  const std::string_view before = name.substr(0, dash);
  return cut(before) == before ? name : cut(before);
}

}  // namespace lockstep
