// SPDX-License-Identifier: Apache-2.0
// Reads little-endian unsigned numbers of 1 to 8 bytes, as in zip, pickle and safetensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::checkpoint {

/// Returns the number in the first `count` bytes of `bytes`, which must have at least that many.
[[nodiscard]] inline std::uint64_t from_little_endian(std::string_view bytes, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return value;
}

inline void append_little_endian(std::string& bytes, std::uint64_t value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xFFU);
}

}  // namespace lockstep::checkpoint
