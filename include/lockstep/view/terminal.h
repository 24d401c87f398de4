// SPDX-License-Identifier: Apache-2.0
// The terminal's abilities, and the width of a text on it. Only this module knows escape codes.
#pragma once

#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::view {

/// Returns true if `fd` is a terminal.
[[nodiscard]] bool is_terminal(int fd) noexcept;

/// Returns the columns of the terminal behind `fd`; without one, COLUMNS, else 80.
[[nodiscard]] int terminal_width(int fd = 2) noexcept;

/// Returns true if output to `fd` gets colours: it is a terminal, NO_COLOR is unset, and TERM is not "dumb".
[[nodiscard]] bool use_color(int fd);

/// Returns true if LOCKSTEP_QUIET is set, as by --quiet: no banner, no progress, no table.
[[nodiscard]] bool is_quiet();

/// Colours and weights of text in a terminal.
enum class Color {
  kNone,    ///< as it is
  kRed,     ///< errors
  kGreen,   ///< good news
  kYellow,  ///< warnings
  kCyan,    ///< names
  kBold,    ///< headings
  kDim      ///< details
};

/// Returns `text` in `color`, or unchanged if `enabled` is false.
[[nodiscard]] std::string paint(std::string_view text, Color color, bool enabled);

/// Returns the columns that UTF-8 `text` takes: East Asian wide letters take two, combining marks and escape codes
/// none; a byte that is not UTF-8 takes one.
[[nodiscard]] int display_width(std::string_view text) noexcept;

/// Returns the longest start of `text` that fits `width` columns, cut between letters; "…" ends it if something was
/// cut.
[[nodiscard]] std::string fit(std::string_view text, int width);

/// Returns every line of `text` cut to the terminal behind `fd`; if `fd` is no terminal, the lines stay whole for other
/// programs to read.
[[nodiscard]] std::string fit_lines(std::string_view text, int fd);

/// Returns every line of `text` cut to `width` columns.
[[nodiscard]] std::string fit_lines_to(std::string_view text, int width);

/// The side of its column that a text is aligned to.
enum class Align {
  kLeft,  ///< words
  kRight  ///< numbers
};

/// Returns `text` filled with spaces to `width` columns; longer text is unchanged.
[[nodiscard]] std::string pad(std::string_view text, int width, Align align = Align::kLeft);

}  // namespace lockstep::view

#pragma GCC visibility pop
