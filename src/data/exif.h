// SPDX-License-Identifier: Apache-2.0
// The camera's orientation: a JPEG's pixels may be stored rotated, with a number that says how to rotate them back. The
// bytes are foreign: no throw, no torch header.
#pragma once

#include <string_view>

#include "data/codec.h"

namespace lockstep::data {

/// From the stored pixels to the upright picture: mirrors the stored ones, then swaps x and y.
struct Turn {
  bool mirror_x = false;
  bool mirror_y = false;
  bool swap = false;

  [[nodiscard]] bool any() const noexcept { return mirror_x || mirror_y || swap; }
};

/// Returns the EXIF orientation of a JPEG: 1 .. 8; 1, upright, if the file has none or an invalid one.
[[nodiscard]] int exif_orientation(std::string_view jpeg) noexcept;
[[nodiscard]] Turn turn_of(int orientation) noexcept;
/// Returns the turn of any file: none for a PNG.
[[nodiscard]] Turn turn_of_file(std::string_view bytes) noexcept;

[[nodiscard]] ImageSize upright(ImageSize stored, const Turn& turn) noexcept;
[[nodiscard]] Image upright(Image stored, const Turn& turn);
/// Turns a place in stored pixels of this size.
[[nodiscard]] Box upright(const Box& place, ImageSize stored, const Turn& turn) noexcept;
/// Returns the stored pixels of a region of the upright picture; `stored` is the size of the whole.
[[nodiscard]] Region stored_region(const Region& region, ImageSize stored, const Turn& turn) noexcept;

/// Like decode_image() and image_size(), for the pixels as they are stored.
[[nodiscard]] Result<Image> decode_stored(std::string_view bytes, ColorMode mode);
[[nodiscard]] Result<ImageSize> stored_size(std::string_view bytes);

}  // namespace lockstep::data
