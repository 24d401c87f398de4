// SPDX-License-Identifier: Apache-2.0
#include "view/tensorboard/record.h"

#include <array>
#include <cstring>

namespace lockstep::view {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78U;  // Castagnoli's, with its bits reversed

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1U) ^ ((value & 1U) != 0 ? kPolynomial : 0U);
    table[i] = value;
  }
  return table;
}

constexpr auto kTable = make_table();

/// TFRecord rotates a checksum and adds a constant, so that the checksum of bytes that hold checksums stays a good one.
std::uint32_t masked(std::uint32_t crc) { return ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U; }

template <class Number>
std::string_view little_endian(const Number& value, char (&bytes)[sizeof(Number)]) {
  for (std::size_t i = 0; i < sizeof value; ++i) bytes[i] = static_cast<char>(value >> (8U * i));
  return {bytes, sizeof value};
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU] ^ (crc >> 8U);
  return ~crc;
}

void append_record(std::string& out, std::string_view payload) {
  char length[8];
  char crc[4];
  const auto size = static_cast<std::uint64_t>(payload.size());
  out += little_endian(size, length);
  out += little_endian(masked(crc32c({length, sizeof length})), crc);
  out += payload;
  out += little_endian(masked(crc32c(payload)), crc);
}

}  // namespace lockstep::view
