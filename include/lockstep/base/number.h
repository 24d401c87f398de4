// SPDX-License-Identifier: Apache-2.0
// Numbers as text, in no locale: a program with a decimal comma reads and writes the same ones.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::text {

/// Returns the number that all of `text` is, with a point before its decimals whatever the locale of the process is;
/// "inf" and "nan" are numbers. None for anything else, and where a double cannot hold it.
[[nodiscard]] std::optional<double> parse_number(std::string_view text) noexcept;

/// Returns `value` as JSON, with so many decimals (-1: the shortest text that reads back as the same bits). JSON has no
/// NaN and no infinity: these are null.
[[nodiscard]] std::string json_number(double value, int decimals = -1);

}  // namespace lockstep::text

#pragma GCC visibility pop
