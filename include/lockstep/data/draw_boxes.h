// SPDX-License-Identifier: Apache-2.0
// A picture with frames and words on it, such as what a detector found. No torch header.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// A frame and what is written above it.
struct BoxMark {
  Box box;  ///< pixels of the picture as it was
  std::array<std::uint8_t, 3> ink{255, 255, 255};
  std::int64_t thick = 1;  ///< pixels of the drawn picture
  bool dashed = false;
  std::string text = {};
};

/// Colours that are told apart easily, one after another by number, such as a class.
[[nodiscard]] std::array<std::uint8_t, 3> mark_ink(std::int64_t number);

/// The picture in this size, with the marks in their order. Without FreeType's font there are no words.
/// Throws: UsageError where the size is none.
[[nodiscard]] Image draw_boxes(const PixelView& picture, ImageSize size, const std::vector<BoxMark>& marks);

}  // namespace lockstep

#pragma GCC visibility pop
