// SPDX-License-Identifier: Apache-2.0
// What the terminal can do, and how wide a text is on it. The only place that knows of escape codes.
#pragma once

#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::view {

[[nodiscard]] bool is_terminal(int fd) noexcept;

/// Columns of the terminal behind `fd`; COLUMNS, else 80, where there is none.
[[nodiscard]] int terminal_width(int fd = 2) noexcept;

/// Whether to colour what goes to `fd`: a terminal, NO_COLOR unset, TERM not "dumb".
[[nodiscard]] bool use_color(int fd);

/// LOCKSTEP_QUIET is set, as by --quiet: no banner, no progress, no table.
[[nodiscard]] bool is_quiet();

enum class Color { kNone, kRed, kGreen, kYellow, kCyan, kBold, kDim };

/// `text` in `color`, or as it is where `enabled` is false.
[[nodiscard]] std::string paint(std::string_view text, Color color, bool enabled);

/// Columns that UTF-8 `text` takes: East Asian wide letters take two, combining marks and escape codes none; a byte
/// that is no UTF-8 takes one.
[[nodiscard]] int display_width(std::string_view text) noexcept;

/// The longest start of `text` that fits `width` columns, cut between letters; "…" ends it where something was cut.
[[nodiscard]] std::string fit(std::string_view text, int width);

/// Every line of `text` cut to the terminal behind `fd`; whole where that is none, for other programs to read.
[[nodiscard]] std::string fit_lines(std::string_view text, int fd);

/// Every line of `text` cut to `width` columns.
[[nodiscard]] std::string fit_lines_to(std::string_view text, int width);

enum class Align { kLeft, kRight };

/// `text` filled with spaces to `width` columns; longer text stays as it is.
[[nodiscard]] std::string pad(std::string_view text, int width, Align align = Align::kLeft);

}  // namespace lockstep::view

#pragma GCC visibility pop
