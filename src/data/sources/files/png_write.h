// SPDX-License-Identifier: Apache-2.0
// PNG files of 8 bits, and the one reader of 16-bit ones. No torch header.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/data/picture.h"

namespace lockstep::data {

/// One channel or three. Throws: InternalError where libspng refuses it.
[[nodiscard]] std::string png_of(const PixelView& pixels);

/// One channel of numbers, as instance maps have them.
struct NumberMap {
  ImageSize size;
  std::vector<std::uint16_t> values;
};

/// A gray or palette PNG of any depth: its numbers as they are stored, palettes as their indices.
[[nodiscard]] Result<NumberMap> decode_numbers(std::string_view bytes);

}  // namespace lockstep::data
