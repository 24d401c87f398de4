// SPDX-License-Identifier: Apache-2.0
#include "captioning/metrics/lower_case.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep::captioning {
namespace {

/// Capital letters whose small letters are `offset` higher; in pairs, only every other letter from `first` is capital.
struct Capitals {
  std::uint32_t first;
  std::uint32_t last;
  std::int32_t offset;
  bool pairs = false;
};

constexpr std::array<Capitals, 24> kCapitals = {
    {{0x41, 0x5A, 0x20},           {0xC0, 0xD6, 0x20},      {0xD8, 0xDE, 0x20},      {0x100, 0x12E, 1, true},
     {0x130, 0x130, 0x69 - 0x130}, {0x132, 0x136, 1, true}, {0x139, 0x147, 1, true}, {0x14A, 0x176, 1, true},
     {0x178, 0x178, 0xFF - 0x178}, {0x179, 0x17D, 1, true}, {0x386, 0x386, 0x26},    {0x388, 0x38A, 0x25},
     {0x38C, 0x38C, 0x40},         {0x38E, 0x38F, 0x3F},    {0x391, 0x3A1, 0x20},    {0x3A3, 0x3AB, 0x20},
     {0x400, 0x40F, 0x50},         {0x410, 0x42F, 0x20},    {0x460, 0x480, 1, true}, {0x48A, 0x4BE, 1, true},
     {0x4C0, 0x4C0, 0xF},          {0x4C1, 0x4CD, 1, true}, {0x4D0, 0x4FE, 1, true}, {0x500, 0x52E, 1, true}}};

bool is_capital(std::uint32_t letter, const Capitals& range) {
  return letter >= range.first && letter <= range.last && (!range.pairs || (letter - range.first) % 2 == 0);
}

}  // namespace

std::string lower_case(std::string_view character) {
  if (character.empty() || character.size() > 2) return std::string(character);
  const auto byte = [&](std::size_t at) {
    return static_cast<std::uint32_t>(static_cast<std::uint8_t>(character[at]));
  };
  const std::uint32_t letter = character.size() == 1 ? byte(0) : (byte(0) & 0x1FU) << 6U | (byte(1) & 0x3FU);
  const auto range = std::ranges::find_if(kCapitals, [&](const Capitals& one) { return is_capital(letter, one); });
  if (range == kCapitals.end()) return std::string(character);
  const auto small = static_cast<std::uint32_t>(static_cast<std::int32_t>(letter) + range->offset);
  if (small < 0x80) return std::string(1, static_cast<char>(small));
  return {static_cast<char>(0xC0U | small >> 6U), static_cast<char>(0x80U | (small & 0x3FU))};
}

}  // namespace lockstep::captioning
