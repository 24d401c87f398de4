// SPDX-License-Identifier: Apache-2.0
// Splits lists that a person or a program wrote as one string.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::text {

/// Returns the parts between the separators, including empty ones: "1,,2" has three parts, "" one.
[[nodiscard]] inline std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

/// Returns the parts that are not empty.
[[nodiscard]] inline std::vector<std::string> split_words(std::string_view text, char separator = ' ') {
  std::vector<std::string> words = split(text, separator);
  std::erase(words, "");
  return words;
}

}  // namespace lockstep::text

#pragma GCC visibility pop
