// SPDX-License-Identifier: Apache-2.0
// Human-readable text, such as sizes, durations and the nearest valid spelling; also JSON strings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"

#pragma GCC visibility push(default)

namespace lockstep::text {

/// Returns "4 B", "26.2 MB", "1.0 GB" (powers of 1000).
[[nodiscard]] std::string bytes(std::uint64_t count);

/// Returns "0.8 s", "42 s", "3:07", "1:02:09".
[[nodiscard]] std::string duration(double seconds);

/// Returns the number of seconds in "90s", "45m", "1h30m", "2d", "1:30:00" (hours first) or "1-12:00:00" (days first,
/// as Slurm writes it). Fails for anything else, and for a number without a unit.
[[nodiscard]] Result<double> parse_duration(std::string_view text);

/// Returns "19,072,400".
[[nodiscard]] std::string thousands(std::int64_t value);

/// Returns "1 rank", "2 ranks", "1,000 ranks": the count and its noun. By default the plural is the noun and an s.
[[nodiscard]] std::string counted(std::int64_t count, std::string_view noun, std::string_view plural = {});

/// Returns the candidate nearest to `word` by edit distance; "" if each differs in more than a third of its letters.
[[nodiscard]] std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// Returns " (did you mean 'x'?)" or "".
[[nodiscard]] std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

/// Returns the message of a libtorch error without the stack addresses that follow it.
[[nodiscard]] std::string without_backtrace(std::string_view message);

/// Returns the text before the first line break.
[[nodiscard]] std::string first_line(std::string_view text);

/// Returns "a, b, c".
[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view separator = ", ");

/// Returns `value` as a JSON string, with its quotes. Invalid UTF-8 is replaced.
[[nodiscard]] std::string json_quote(std::string_view value);

}  // namespace lockstep::text

#pragma GCC visibility pop
