// SPDX-License-Identifier: Apache-2.0
// Moves the marks of an image (boxes, points, masks, maps) with its pixels, for the geometric augmentations.
#pragma once

#include <utility>

#include "lockstep/data/augment/crop.h"

namespace lockstep::data {

/// An affine map of points: x' = xx * x + xy * y + x0, and y' likewise. Units: pixels; pixel (0, 0) covers 0 .. 1.
struct Motion {
  double xx = 1.0;
  double xy = 0.0;
  double x0 = 0.0;
  double yx = 0.0;
  double yy = 1.0;
  double y0 = 0.0;
};

/// Moves the boxes and points of `image`, whose pixels and planes have already moved and now have the size `canvas`.
/// Areas are computed from the masks, or else from the remaining part of the box.
void move_marks(AnnotatedImage& image, const Motion& motion, ImageSize canvas);

/// Replaces each mask and map with change(plane, value of empty pixels).
template <class Change>
void change_planes(AnnotatedImage& image, const Change& change) {
  for (Object& object : image.objects) {
    if (object.mask) *object.mask = change(std::as_const(*object.mask), std::uint8_t{0});
  }
  for (LabelMap& map : image.maps) map.image = change(std::as_const(map.image), map.fill);
}

/// Returns the pixels inside `canvas`, which may extend outside the image.
[[nodiscard]] Image placed(const PixelView& view, const Region& canvas, const Color& fill);

/// Crops the image and its marks to `canvas`, which may extend outside.
void place(AnnotatedImage& image, const Region& canvas, const Color& fill);

[[nodiscard]] Image solid(ImageSize size, std::int64_t channels, const Color& color);

[[nodiscard]] inline Region whole(ImageSize size) { return {0, 0, size}; }

/// Throws: UsageError naming `who` if a side is not positive.
void check_size(ImageSize size, const char* who);

}  // namespace lockstep::data
