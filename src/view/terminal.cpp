// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "lockstep/base/env.h"

namespace lockstep::view {
namespace {

constexpr int kDefaultWidth = 80;
constexpr std::string_view kEllipsis = "…";

/// A glyph in a string: its bytes and its width in columns.
struct Glyph {
  std::size_t bytes;
  int columns;
};

struct Range {
  char32_t first;
  char32_t last;
};

/// The Unicode blocks that terminals draw two columns wide (East Asian Width W and F, rounded to blocks).
constexpr std::array<Range, 9> kWide{{{0x1100, 0x115F},
                                      {0x2E80, 0x303E},
                                      {0x3041, 0xA4CF},
                                      {0xAC00, 0xD7A3},
                                      {0xF900, 0xFAFF},
                                      {0xFE30, 0xFE6F},
                                      {0xFF00, 0xFF60},
                                      {0x1F300, 0x1FAFF},
                                      {0x20000, 0x3FFFD}}};

/// Marks that are drawn over the letter before them.
constexpr std::array<Range, 4> kCombining{{{0x0300, 0x036F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}};

template <std::size_t N>
bool is_in(char32_t letter, const std::array<Range, N>& ranges) noexcept {
  return std::any_of(ranges.begin(), ranges.end(),
                     [letter](const Range& range) { return range.first <= letter && letter <= range.last; });
}

unsigned byte_at(std::string_view text, std::size_t at) noexcept { return static_cast<unsigned char>(text[at]); }

/// Returns the length of "\033[...m" at the start of `text`; 0 if there is none.
std::size_t escape_length(std::string_view text) noexcept {
  if (!text.starts_with("\033[")) return 0;
  const auto end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

Glyph next_glyph(std::string_view text) noexcept {
  if (const std::size_t escape = escape_length(text); escape > 0) return {escape, 0};
  const unsigned lead = byte_at(text, 0);
  if (lead < 0x80) return {1, lead < 0x20 || lead == 0x7F ? 0 : 1};
  const std::size_t length = lead >= 0xF0 && lead < 0xF5 ? 4 : lead >= 0xE0 && lead < 0xF0 ? 3 : lead >= 0xC2 ? 2 : 1;
  if (length == 1 || lead >= 0xF5 || length > text.size()) return {1, 1};
  char32_t letter = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte_at(text, i) & 0xC0U) != 0x80U) return {1, 1};
    letter = (letter << 6U) | (byte_at(text, i) & 0x3FU);
  }
  if (is_in(letter, kCombining)) return {length, 0};
  return {length, is_in(letter, kWide) ? 2 : 1};
}

std::string_view code_of(Color color) noexcept {
  switch (color) {
    case Color::kRed:
      return "31";
    case Color::kGreen:
      return "32";
    case Color::kYellow:
      return "33";
    case Color::kCyan:
      return "36";
    case Color::kBold:
      return "1";
    case Color::kDim:
      return "2";
    case Color::kNone:
      break;
  }
  return "";
}

}  // namespace

bool is_terminal(int fd) noexcept { return ::isatty(fd) == 1; }

int terminal_width(int fd) noexcept {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  try {
    const auto columns = env::get_int("COLUMNS");
    if (columns && *columns > 0 && *columns < 10'000) return static_cast<int>(*columns);
  } catch (const std::exception&) {  // COLUMNS is not a number, and is ignored
  }
  return kDefaultWidth;
}

bool use_color(int fd) { return is_terminal(fd) && !env::get("NO_COLOR") && env::get("TERM").value_or("") != "dumb"; }

bool is_quiet() { return env::get("LOCKSTEP_QUIET").value_or("0") != "0"; }

std::string paint(std::string_view text, Color color, bool enabled) {
  if (!enabled || color == Color::kNone) return std::string(text);
  return fmt::format("\033[{}m{}\033[0m", code_of(color), text);
}

int display_width(std::string_view text) noexcept {
  int columns = 0;
  while (!text.empty()) {
    const Glyph glyph = next_glyph(text);
    columns += glyph.columns;
    text.remove_prefix(glyph.bytes);
  }
  return columns;
}

std::string fit(std::string_view text, int width) {
  if (display_width(text) <= width) return std::string(text);
  if (width <= 0) return "";
  std::size_t bytes = 0;
  int columns = 0;
  while (bytes < text.size()) {
    const Glyph glyph = next_glyph(text.substr(bytes));
    if (columns + glyph.columns > width - 1) break;
    columns += glyph.columns;
    bytes += glyph.bytes;
  }
  return std::string(text.substr(0, bytes)) + std::string(kEllipsis);
}

std::string fit_lines(std::string_view text, int fd) {
  return is_terminal(fd) ? fit_lines_to(text, terminal_width(fd)) : std::string(text);
}

std::string fit_lines_to(std::string_view text, int width) {
  std::string out;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    out += fit(text.substr(0, end), width);
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string pad(std::string_view text, int width, Align align) {
  const int missing = width - display_width(text);
  if (missing <= 0) return std::string(text);
  const std::string spaces(static_cast<std::size_t>(missing), ' ');
  return align == Align::kLeft ? std::string(text) + spaces : spaces + std::string(text);
}

}  // namespace lockstep::view
