// SPDX-License-Identifier: Apache-2.0
// Draws images with their captions. No torch header.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/decode.h"

namespace lockstep::captioning {

/// An image with the captions of the network and of an annotator.
struct CaptionedPicture {
  Image picture;  ///< 1 or 3 channels
  std::string caption;
  std::string reference = {};          ///< caption of an annotator; empty if none is drawn
  std::optional<double> cider_d = {};  ///< score, drawn before the caption
};

struct PageOptions {
  std::int64_t columns = 4;
  std::int64_t cell = 240;  ///< longer side of an image in pixels
  bool legend = false;      ///< end with a line that explains the colours of the words
};

/// A grid of images, with the caption (white) and reference (grey) below each, broken at spaces. Without the font,
/// there are no words. Throws: UsageError if there are no images, one is empty, or an option is not positive.
[[nodiscard]] Image caption_page(const std::vector<CaptionedPicture>& pictures, const PageOptions& options = {});

/// Draws one image at its original size (enlarged by an integer factor to a width of at least 240 pixels), with its
/// caption below. Throws: UsageError if the image is empty.
[[nodiscard]] Image captioned(const CaptionedPicture& picture);

}  // namespace lockstep::captioning
