// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <system_error>

#include "base/utf8.h"

namespace lockstep::text {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row.back();
}

}  // namespace

std::string bytes(std::uint64_t count) {
  constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(count);
  std::size_t unit = 0;
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1000.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", count) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string duration(double seconds) {
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

namespace {

/// A number and its unit, such as "90s", at the start of a longer text.
struct Amount {
  double number = 0;
  char unit = 0;  ///< 0 if the text ends after the number
};

bool take_amount(std::string_view& text, Amount& amount) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount.number);
  if (error != std::errc() || !(amount.number >= 0) || !std::isfinite(amount.number)) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  amount.unit = text.empty() ? '\0' : text.front();
  if (!text.empty()) text.remove_prefix(1);
  return true;
}

double unit_seconds(char unit) {
  switch (unit) {
    case 's':
      return 1;
    case 'm':
      return 60;
    case 'h':
      return 3600;
    case 'd':
      return 86400;
    default:
      return 0;
  }
}

/// Reads "1:30:00", "1-12:00:00" and "1-12:00". It rejects "1:30", which could be minutes or hours.
std::optional<double> clock_seconds(std::string_view text) {
  double days = 0;
  Amount amount;
  const auto dash = text.find('-');
  const bool has_days = dash != std::string_view::npos;
  if (has_days) {
    std::string_view before = text.substr(0, dash);
    if (!take_amount(before, amount) || amount.unit != '\0') return std::nullopt;
    days = amount.number;
    text.remove_prefix(dash + 1);
  }
  double seconds = 0;
  int numbers = 0;
  for (char unit = ':'; unit == ':'; unit = amount.unit, ++numbers) {
    if (!take_amount(text, amount)) return std::nullopt;
    seconds = seconds * 60 + amount.number;
  }
  if (amount.unit != '\0' || numbers > 3 || numbers < (has_days ? 2 : 3)) return std::nullopt;
  return days * 86400 + seconds * (numbers == 2 ? 60 : 1);
}

}  // namespace

Result<double> parse_duration(std::string_view text) {
  if (text.find(':') != std::string_view::npos) {
    if (const auto seconds = clock_seconds(text)) return *seconds;
  }
  double seconds = 0;
  std::string_view rest = text;
  Amount amount;
  while (!rest.empty()) {
    if (!take_amount(rest, amount) || unit_seconds(amount.unit) == 0) {
      return Failure{fmt::format("'{}' is not a time: write it as 90s, 45m, 1h30m, 2d or 1:30:00", text)};
    }
    seconds += amount.number * unit_seconds(amount.unit);
  }
  if (text.empty()) return Failure{"an empty string is not a time: write it as 90s, 45m, 1h30m, 2d or 1:30:00"};
  return seconds;
}

std::string thousands(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string counted(std::int64_t count, std::string_view noun, std::string_view plural) {
  if (count != 1 && !plural.empty()) return fmt::format("{} {}", thousands(count), plural);
  return fmt::format("{} {}{}", thousands(count), noun, count == 1 ? "" : "s");
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  if (!best.empty()) return best;
  // A truncated word: "--nproc" for "--nproc-per-node".
  constexpr std::size_t kEnough = 4;
  const auto goes_on = [&](const std::string& candidate) {
    return word.size() >= kEnough && candidate.starts_with(word);
  };
  const auto found = std::find_if(candidates.begin(), candidates.end(), goes_on);
  return found == candidates.end() ? "" : *found;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string found = nearest(word, candidates);
  return found.empty() ? "" : fmt::format(" (did you mean '{}'?)", found);
}

std::string without_backtrace(std::string_view message) {
  return std::string(message.substr(0, message.find("\nException raised from ")));
}

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string json_quote(std::string_view value) {
  std::string out = "\"";
  for (std::size_t at = 0; at < value.size();) {
    const auto [length, code] = letter_at(value, at);
    const char c = value[at];
    if (length == 0) {
      out += "\\ufffd";
    } else if (code >= 0x7F && code < 0xA0) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(code));  // valid in JSON, but it could control a terminal
    } else if (length > 1) {
      out += value.substr(at, length);
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
    at += std::max<std::size_t>(length, 1);
  }
  return out + "\"";
}

}  // namespace lockstep::text
