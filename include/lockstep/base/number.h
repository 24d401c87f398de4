// SPDX-License-Identifier: Apache-2.0
// Numbers as text, independent of the locale: a program with a decimal comma reads and writes the same text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::text {

/// Parses all of `text` as a number, with a decimal point in any locale; "inf" and "nan" are numbers. Returns none if
/// it is not a number, or does not fit in a double.
[[nodiscard]] std::optional<double> parse_number(std::string_view text) noexcept;

/// Returns `value` as JSON with `decimals` decimals (-1: the shortest text that reads back as the same bits). NaN and
/// infinity become null: JSON has neither.
[[nodiscard]] std::string json_number(double value, int decimals = -1);

}  // namespace lockstep::text

#pragma GCC visibility pop
