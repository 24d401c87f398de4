// SPDX-License-Identifier: Apache-2.0
// Reads whole numbers from a command line or the environment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep {

/// The valid numbers.
struct WholeRange {
  std::int64_t least = 0;  ///< smallest valid number
  std::int64_t most =
      1'000'000;  ///< largest valid number; the default is the limit for counts of ranks, nodes and starts
};

/// Parses all of `text`. Returns none if it is not a 64-bit whole number or is outside the range.
[[nodiscard]] std::optional<std::int64_t> parse_whole(std::string_view text, const WholeRange& range) noexcept;

/// Like parse_whole(), but throws instead of returning none. Throws: UsageError "NAME is 'TEXT'; it must be a whole
/// number, 0 .. 1,000,000".
/// Example: const auto port = static_cast<std::uint16_t>(whole_number("--master-port", text, {1, 65535}));
[[nodiscard]] std::int64_t whole_number(std::string_view name, std::string_view text, const WholeRange& range);

/// Returns "a whole number, 0 .. 1,000,000".
[[nodiscard]] std::string to_text(const WholeRange& range);

}  // namespace lockstep

#pragma GCC visibility pop
