// SPDX-License-Identifier: Apache-2.0
#include "data/augment/marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

Point moved(const Motion& motion, double x, double y) {
  return {static_cast<float>(motion.xx * x + motion.xy * y + motion.x0),
          static_cast<float>(motion.yx * x + motion.yy * y + motion.y0), true};
}

/// Returns the axis-parallel box around the moved corners of `box`.
Box around(const Motion& motion, const Box& box) {
  const Point corners[] = {moved(motion, box.x1, box.y1), moved(motion, box.x2, box.y1), moved(motion, box.x1, box.y2),
                           moved(motion, box.x2, box.y2)};
  Box bounds{corners[0].x, corners[0].y, corners[0].x, corners[0].y};
  for (const Point& corner : corners) {
    bounds.x1 = std::min(bounds.x1, corner.x);
    bounds.y1 = std::min(bounds.y1, corner.y);
    bounds.x2 = std::max(bounds.x2, corner.x);
    bounds.y2 = std::max(bounds.y2, corner.y);
  }
  return bounds;
}

Box clipped(const Box& box, ImageSize canvas) {
  const auto width = static_cast<float>(canvas.width);
  const auto height = static_cast<float>(canvas.height);
  return {std::clamp(box.x1, 0.0F, width), std::clamp(box.y1, 0.0F, height), std::clamp(box.x2, 0.0F, width),
          std::clamp(box.y2, 0.0F, height)};
}

bool is_inside(const Point& point, ImageSize canvas) {
  return point.x >= 0 && point.y >= 0 && point.x <= static_cast<float>(canvas.width) &&
         point.y <= static_cast<float>(canvas.height);
}

float area_of_mask(const Image& mask) {
  const auto covered = std::ranges::count_if(mask.pixels, [](std::uint8_t value) { return value != 0; });
  return static_cast<float>(covered);
}

void move_object(Object& object, const Motion& motion, ImageSize canvas) {
  const Box bounds = around(motion, object.box);
  object.box = clipped(bounds, canvas);
  if (object.mask) {
    object.area = area_of_mask(*object.mask);
  } else {
    const auto scale = static_cast<float>(std::abs(motion.xx * motion.yy - motion.xy * motion.yx));
    object.area *= bounds.area() > 0 ? scale * object.box.area() / bounds.area() : 0.0F;
  }
  for (Point& point : object.points) {
    const bool visible = point.visible;
    point = moved(motion, point.x, point.y);
    point.visible = visible && is_inside(point, canvas);
  }
}

}  // namespace

void move_marks(AnnotatedImage& image, const Motion& motion, ImageSize canvas) {
  for (Object& object : image.objects) move_object(object, motion, canvas);
}

Image solid(ImageSize size, std::int64_t channels, const Color& color) {
  Image image{size, channels, {}};
  const auto bytes = static_cast<std::size_t>(size.width * size.height * channels);
  if (channels == 1 || (color[0] == color[1] && color[1] == color[2])) {
    image.pixels.assign(bytes, color[0]);
    return image;
  }
  image.pixels.resize(bytes);
  for (std::size_t i = 0; i < bytes; ++i) image.pixels[i] = color[i % 3];
  return image;
}

Image placed(const PixelView& view, const Region& canvas, const Color& fill) {
  Image image = solid(canvas.size, view.channels, fill);
  const std::int64_t left = std::max<std::int64_t>(canvas.left, 0);
  const std::int64_t right = std::min(canvas.left + canvas.size.width, view.size.width);
  const std::int64_t bottom = std::min(canvas.top + canvas.size.height, view.size.height);
  for (std::int64_t y = std::max<std::int64_t>(canvas.top, 0); y < bottom && left < right; ++y) {
    const std::int64_t to = (y - canvas.top) * canvas.size.width + left - canvas.left;
    std::copy_n(view.row(y) + left * view.channels, (right - left) * view.channels,
                image.pixels.begin() + to * view.channels);
  }
  return image;
}

void place(AnnotatedImage& image, const Region& canvas, const Color& fill) {
  check_size(canvas.size, "a crop");
  const ImageSize size = image.pixels.size();
  const bool inside = canvas.left >= 0 && canvas.top >= 0 && canvas.left + canvas.size.width <= size.width &&
                      canvas.top + canvas.size.height <= size.height;
  if (inside) {
    image.pixels.crop(canvas, canvas.size);
  } else {
    image.pixels = placed(image.pixels.view(), canvas, fill);
  }
  change_planes(image, [&](const Image& plane, std::uint8_t empty) {
    return placed(view_of(plane), canvas, {empty, empty, empty});
  });
  move_marks(image, {.x0 = -static_cast<double>(canvas.left), .y0 = -static_cast<double>(canvas.top)}, canvas.size);
}

void check_size(ImageSize size, const char* who) {
  if (size.width <= 0 || size.height <= 0) {
    throw UsageError(fmt::format("{} cannot have {} x {} pixels", who, size.width, size.height));
  }
}

}  // namespace lockstep::data
