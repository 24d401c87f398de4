// SPDX-License-Identifier: Apache-2.0
// What geometric augmentations share: how marks follow the pixels.
#pragma once

#include <utility>

#include "lockstep/data/augment/crop.h"

namespace lockstep::data {

/// Where a point goes: x' = xx * x + xy * y + x0, and y' in the same way. Units: pixels; pixel (0, 0) covers 0 .. 1.
struct Motion {
  double xx = 1.0;
  double xy = 0.0;
  double x0 = 0.0;
  double yx = 0.0;
  double yy = 1.0;
  double y0 = 0.0;
};

/// Boxes and points of `image`, whose pixels and planes moved already and now have the size `canvas`. Areas follow from
/// the masks, else from how much of the box is left.
void move_marks(AnnotatedImage& image, const Motion& motion, ImageSize canvas);

/// Masks and maps: each becomes change(plane, what stands where nothing is).
template <class Change>
void change_planes(AnnotatedImage& image, const Change& change) {
  for (Object& object : image.objects) {
    if (object.mask) *object.mask = change(std::as_const(*object.mask), std::uint8_t{0});
  }
  for (LabelMap& map : image.maps) map.image = change(std::as_const(map.image), map.fill);
}

/// The pixels under `canvas`, which may reach outside.
[[nodiscard]] Image placed(const PixelView& view, const Region& canvas, const Color& fill);

/// The whole picture: only what is under `canvas`, which may reach outside.
void place(AnnotatedImage& image, const Region& canvas, const Color& fill);

[[nodiscard]] Image solid(ImageSize size, std::int64_t channels, const Color& color);

[[nodiscard]] inline Region whole(ImageSize size) { return {0, 0, size}; }

/// Throws: UsageError that names `who` where a side is not positive.
void check_size(ImageSize size, const char* who);

}  // namespace lockstep::data
