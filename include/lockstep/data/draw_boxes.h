// SPDX-License-Identifier: Apache-2.0
// Draws frames and captions on an image, such as the results of a detector. No torch header.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// A frame and the text above it.
struct BoxMark {
  Box box;                                         ///< box in pixels of the original image, clipped to it
  std::array<std::uint8_t, 3> ink{255, 255, 255};  ///< colour of the lines
  std::int64_t thick = 1;                          ///< width of the lines, in pixels of the drawn image
  bool dashed = false;                             ///< draws dashed lines, as for a false detection
  bool corners = false;                            ///< draws only the corners, as for a missed object
  std::string text = {};                           ///< the text above the frame; may be empty
  bool plate = false;                              ///< draws dark text on a background in the colour `ink`
};

/// Returns a colour for a number, such as a class; neighbouring numbers have colours that are easy to distinguish.
[[nodiscard]] std::array<std::uint8_t, 3> mark_ink(std::int64_t number);

/// Returns the image at this size, with the marks drawn in order. If the font is missing, there is no text.
/// Throws: UsageError if the size is not positive.
[[nodiscard]] Image draw_boxes(const PixelView& picture, ImageSize size, const std::vector<BoxMark>& marks);

}  // namespace lockstep

#pragma GCC visibility pop
