// SPDX-License-Identifier: Apache-2.0
// Draws pictures with their captions. No torch header.
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
  std::string reference = {};          ///< caption of an annotator; empty: none is drawn
  std::optional<double> cider_d = {};  ///< score, drawn before the caption
};

struct PageOptions {
  std::int64_t columns = 4;
  std::int64_t cell = 240;  ///< longer side of a picture in pixels
  bool legend = false;      ///< true: a last line explains the colours of the words
};

/// A grid of pictures, below each its caption (white) and its reference (grey), broken at spaces. Without the font
/// there are no words. Throws: UsageError if there is no picture, one is empty, or an option is not positive.
[[nodiscard]] Image caption_page(const std::vector<CaptionedPicture>& pictures, const PageOptions& options = {});

/// Draws one picture in its own size (enlarged by a whole factor to a width of at least 240 pixels), with its caption
/// below. Throws: UsageError if the picture is empty.
[[nodiscard]] Image captioned(const CaptionedPicture& picture);

}  // namespace lockstep::captioning
