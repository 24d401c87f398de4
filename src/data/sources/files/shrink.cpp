// SPDX-License-Identifier: Apache-2.0
#include "data/sources/files/shrink.h"

#include <algorithm>
#include <cmath>

namespace lockstep::data {
namespace {

Image nearest(const Image& image, ImageSize size) {
  Image result{size, image.channels, {}};
  result.pixels.reserve(static_cast<std::size_t>(size.width * size.height * image.channels));
  for (std::int64_t y = 0; y < size.height; ++y) {
    const std::int64_t from_y = (2 * y + 1) * image.size.height / (2 * size.height);
    for (std::int64_t x = 0; x < size.width; ++x) {
      const std::int64_t from_x = (2 * x + 1) * image.size.width / (2 * size.width);
      const auto* from = image.pixels.data() + (from_y * image.size.width + from_x) * image.channels;
      result.pixels.insert(result.pixels.end(), from, from + image.channels);
    }
  }
  return result;
}

}  // namespace

void shrink(AnnotatedImage& picture, std::int64_t max_side, ColorMode color) {
  const ImageSize old = picture.pixels.size();
  const std::int64_t longest = std::max(old.width, old.height);
  if (longest <= max_side) return;
  const auto scaled = [&](std::int64_t side) {
    return std::max<std::int64_t>(1, (side * max_side + longest / 2) / longest);
  };
  const ImageSize size{scaled(old.width), scaled(old.height)};
  const float by_x = static_cast<float>(size.width) / static_cast<float>(old.width);
  const float by_y = static_cast<float>(size.height) / static_cast<float>(old.height);
  picture.pixels = resize_image(picture.pixels.decoded(color), size);
  for (Object& object : picture.objects) {
    object.box = {object.box.x1 * by_x, object.box.y1 * by_y, object.box.x2 * by_x, object.box.y2 * by_y};
    object.area *= by_x * by_y;
    for (Point& point : object.points) point = {point.x * by_x, point.y * by_y, point.visible};
    if (object.mask) object.mask = nearest(*object.mask, size);
  }
  for (LabelMap& map : picture.maps) map.image = nearest(map.image, size);
}

}  // namespace lockstep::data
