// SPDX-License-Identifier: Apache-2.0
// The camera's orientation: a JPEG's pixels may be stored rotated, with a number for the rotation that makes them
// upright. The bytes are untrusted: functions never throw. No torch header.
#pragma once

#include <string_view>

#include "data/codec.h"

namespace lockstep::data {

/// The steps from the stored pixels to the upright image: mirror, then swap x and y.
struct Turn {
  bool mirror_x = false;
  bool mirror_y = false;
  bool swap = false;

  [[nodiscard]] bool any() const noexcept { return mirror_x || mirror_y || swap; }
};

/// Returns the EXIF orientation of a JPEG: 1 .. 8; 1, upright, if the file has none or an invalid one.
[[nodiscard]] int exif_orientation(std::string_view jpeg) noexcept;
[[nodiscard]] Turn turn_of(int orientation) noexcept;
/// Returns the turn of any image file; a PNG has none.
[[nodiscard]] Turn turn_of_file(std::string_view bytes) noexcept;

[[nodiscard]] ImageSize upright(ImageSize stored, const Turn& turn) noexcept;
[[nodiscard]] Image upright(Image stored, const Turn& turn);
/// Maps a box in stored pixels to the upright image; `stored` is the stored size of the whole image.
[[nodiscard]] Box upright(const Box& place, ImageSize stored, const Turn& turn) noexcept;
/// Returns the region of the stored pixels for a region of the upright image; `stored` is the stored size of the whole
/// image.
[[nodiscard]] Region stored_region(const Region& region, ImageSize stored, const Turn& turn) noexcept;

/// Do the same as decode_image() and image_size(), but without the rotation.
[[nodiscard]] Result<Image> decode_stored(std::string_view bytes, ColorMode mode);
[[nodiscard]] Result<ImageSize> stored_size(std::string_view bytes);

}  // namespace lockstep::data
