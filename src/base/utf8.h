// SPDX-License-Identifier: Apache-2.0
// Reads UTF-8 one character at a time.
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep::text {

struct Letter {
  std::size_t bytes = 0;  ///< length of the character; 0 if the bytes are not UTF-8
  char32_t code = 0;
};

/// Returns the character at `at`. Overlong forms, surrogates and codes above U+10FFFF are not UTF-8.
[[nodiscard]] inline Letter letter_at(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead >= 0xF5 || at + length > text.size()) return {};
  char32_t code = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    code = (code << 6U) | (byte(i) & 0x3FU);
  }
  const char32_t least = length == 4 ? 0x10000 : length == 3 ? 0x800 : 0x80;
  if (code < least || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return {};
  return {length, code};
}

}  // namespace lockstep::text
