// SPDX-License-Identifier: Apache-2.0
// Pictures with their captions, for people to look at. No torch header.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/decode.h"

namespace lockstep::captioning {

/// A picture with the captions of the network and of an annotator.
struct CaptionedPicture {
  Image picture;  ///< 1 or 3 channels
  std::string caption;
  std::string reference = {};          ///< empty: none is drawn
  std::optional<double> cider_d = {};  ///< drawn in front of the caption
};

struct PageOptions {
  std::int64_t columns = 4;
  std::int64_t cell = 240;  ///< pixels of a picture's longer side
  bool legend = false;      ///< a line below everything explains the colours of the words
};

/// A grid of pictures, below each its caption (white) and its reference (grey), broken at spaces. Without FreeType's
/// font there are no words.
/// Throws: UsageError if there is no picture, one is empty, or an option is not positive.
[[nodiscard]] Image caption_page(const std::vector<CaptionedPicture>& pictures, const PageOptions& options = {});

/// One picture in its own size (enlarged by a whole factor to a width of at least 240 pixels), with its caption below.
/// Throws: UsageError if it is empty.
[[nodiscard]] Image captioned(const CaptionedPicture& picture);

}  // namespace lockstep::captioning
