// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/augment/resize.h"

#include <algorithm>

#include "data/augment/marks.h"
#include "data/augment/resized.h"

namespace lockstep {
namespace data {

void resize_part(AnnotatedImage& image, const Region& part, const ResizeOptions& options) {
  check_size(options.size, "a picture");
  const Box where = image.pixels.crop(part, options.shrink_while_decoding ? options.size : part.size);
  image.pixels = resample(image.pixels.view(), where, options.size, options.interpolation);
  change_planes(image, [&](const Image& plane, std::uint8_t /*empty*/) {
    const Box box{static_cast<float>(part.left), static_cast<float>(part.top),
                  static_cast<float>(part.left + part.size.width), static_cast<float>(part.top + part.size.height)};
    return resample(view_of(plane), box, options.size, Interpolation::kNearest);
  });
  const double x = static_cast<double>(options.size.width) / static_cast<double>(part.size.width);
  const double y = static_cast<double>(options.size.height) / static_cast<double>(part.size.height);
  move_marks(image,
             {.xx = x, .x0 = -x * static_cast<double>(part.left), .yy = y, .y0 = -y * static_cast<double>(part.top)},
             options.size);
}

}  // namespace data

void Resize::operator()(AnnotatedImage& image) const {
  data::resize_part(image, data::whole(image.pixels.size()), {size, interpolation, shrink_while_decoding});
}

ImageSize ResizeShorter::size_of(ImageSize size) const {
  const std::int64_t short_side = std::min(size.width, size.height);
  const std::int64_t long_side = std::max(size.width, size.height);
  std::int64_t new_short = shorter;
  std::int64_t new_long = shorter * long_side / short_side;
  if (longest > 0 && new_long > longest) {
    new_short = longest * new_short / new_long;
    new_long = longest;
  }
  return size.width <= size.height ? ImageSize{new_short, new_long} : ImageSize{new_long, new_short};
}

void ResizeShorter::operator()(AnnotatedImage& image) const {
  const ImageSize size = image.pixels.size();
  data::resize_part(image, data::whole(size), {size_of(size), interpolation, shrink_while_decoding});
}

}  // namespace lockstep
