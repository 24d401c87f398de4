// SPDX-License-Identifier: Apache-2.0
// The terminal's capabilities, and the width of text on it. Only this module uses escape codes.
#pragma once

#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::view {

/// Returns true if `fd` is a terminal.
[[nodiscard]] bool is_terminal(int fd) noexcept;

/// Returns the width of the terminal at `fd`, in columns; without a terminal, the value of COLUMNS, else 80.
[[nodiscard]] int terminal_width(int fd = 2) noexcept;

/// Returns true if output to `fd` gets colours: it is a terminal, NO_COLOR is unset, and TERM is not "dumb".
[[nodiscard]] bool use_color(int fd);

/// Returns true if LOCKSTEP_QUIET is set (--quiet sets it): no banner, no progress, no table.
[[nodiscard]] bool is_quiet();

/// Colours and weights of text in a terminal.
enum class Color {
  kNone,    ///< plain text
  kRed,     ///< errors
  kGreen,   ///< good news
  kYellow,  ///< warnings
  kCyan,    ///< names
  kBold,    ///< headings
  kDim      ///< details
};

/// Returns `text` in `color`, or unchanged if `enabled` is false.
[[nodiscard]] std::string paint(std::string_view text, Color color, bool enabled);

/// Returns the number of columns of the UTF-8 text `text`: East Asian wide characters take two columns, combining marks
/// and escape codes none, and a byte that is not UTF-8 takes one.
[[nodiscard]] int display_width(std::string_view text) noexcept;

/// Returns the longest prefix of `text` that fits into `width` columns, cut between characters; "…" marks a cut.
[[nodiscard]] std::string fit(std::string_view text, int width);

/// Returns `text` with every line cut to the width of the terminal at `fd`. If `fd` is not a terminal, the lines are
/// left intact, for other programs to read.
[[nodiscard]] std::string fit_lines(std::string_view text, int fd);

/// Returns `text` with every line cut to `width` columns.
[[nodiscard]] std::string fit_lines_to(std::string_view text, int width);

/// The side of a column to which text is aligned.
enum class Align {
  kLeft,  ///< words
  kRight  ///< numbers
};

/// Returns `text` padded with spaces to `width` columns; longer text is unchanged.
[[nodiscard]] std::string pad(std::string_view text, int width, Align align = Align::kLeft);

}  // namespace lockstep::view

#pragma GCC visibility pop
