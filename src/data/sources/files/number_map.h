// SPDX-License-Identifier: Apache-2.0
// Reads PNG files as numbers: 16 bits, palettes, small bit depths. No torch header.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/data/decode.h"

namespace lockstep::data {

/// One channel of numbers, as in an instance map.
struct NumberMap {
  ImageSize size;
  std::vector<std::uint16_t> values;
};

/// Decodes a gray or palette PNG of any depth: returns the numbers as stored, and the indices of a palette.
[[nodiscard]] Result<NumberMap> decode_numbers(std::string_view bytes);

}  // namespace lockstep::data
