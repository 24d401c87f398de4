// SPDX-License-Identifier: Apache-2.0
// Fills outlines with FreeType, with a span callback that blends directly into the pixels.
#include "captcha/synthetic/draw_canvas.h"

#include <ft2build.h>
#include <algorithm>
#include <cmath>
#include <type_traits>
#include FT_FREETYPE_H
#include FT_OUTLINE_H

#include "lockstep/base/error.h"

namespace lockstep::captcha {
namespace {

// FreeType changed the signedness of these members between 2.12 and 2.13.
using Tag = std::remove_pointer_t<decltype(FT_Outline::tags)>;
using End = std::remove_pointer_t<decltype(FT_Outline::contours)>;

constexpr double kUnitsPerPixel = 64;  // FreeType's 26.6 fixed point

struct FillJob {
  Canvas* canvas;
  Color color;
  int opacity;
};

void fill_spans(int y, int count, const FT_Span* spans, void* user) {
  const FillJob& job = *static_cast<FillJob*>(user);
  const std::int64_t row = job.canvas->height() - 1 - y;  // FreeType's y grows upwards
  for (const FT_Span& span : std::span(spans, static_cast<std::size_t>(count))) {
    job.canvas->blend_span(span.x, row, span.len, job.color, (span.coverage + 1) * job.opacity / 256);
  }
}

std::uint8_t mixed(int under, int over, int weight) noexcept {
  return static_cast<std::uint8_t>((under * (256 - weight) + over * weight + 128) / 256);
}

}  // namespace

Box box_of(const Outline& outline) {
  if (outline.points.empty()) return {};
  Box box{outline.points[0].x, outline.points[0].y, outline.points[0].x, outline.points[0].y};
  for (const Point& point : outline.points) {
    box.left = std::min(box.left, point.x);
    box.right = std::max(box.right, point.x);
    box.top = std::min(box.top, point.y);
    box.bottom = std::max(box.bottom, point.y);
  }
  return box;
}

Outline stroke(std::span<const Point> path, double width) {
  const std::size_t count = path.size();
  Outline outline;
  outline.points.resize(2 * count);
  for (std::size_t i = 0; i < count; ++i) {
    const Point& before = path[i == 0 ? 0 : i - 1];
    const Point& after = path[i + 1 == count ? i : i + 1];
    const double x = after.x - before.x;
    const double y = after.y - before.y;
    const double length = std::sqrt(x * x + y * y);
    const double scale = length > 0 ? width / 2 / length : 0;
    outline.points[i] = {path[i].x - y * scale, path[i].y + x * scale};
    outline.points[2 * count - 1 - i] = {path[i].x + y * scale, path[i].y - x * scale};
  }
  outline.tags.assign(2 * count, FT_CURVE_TAG_ON);
  outline.ends = {static_cast<int>(2 * count) - 1};
  return outline;
}

Rasterizer::Rasterizer() {
  FT_Library library = nullptr;
  if (FT_Init_FreeType(&library) != 0) throw ResourceError("cannot initialise FreeType: out of memory");
  library_ = std::shared_ptr<FT_LibraryRec_>(library, FT_Done_FreeType);
}

Canvas::Canvas(Rasterizer& rasterizer, std::int64_t width, std::int64_t height, Color background)
    : rasterizer_(&rasterizer), width_(width), height_(height), pixels_(static_cast<std::size_t>(width * height * 3)) {
  for (std::int64_t y = 0; y < height; ++y) blend_span(0, y, width, background, 256);
}

void Canvas::fill(const Outline& outline, Color color, int opacity) {
  std::vector<FT_Vector> points;
  points.reserve(outline.points.size());
  for (const Point& point : outline.points) {
    points.push_back({std::lround(point.x * kUnitsPerPixel),
                      std::lround((static_cast<double>(height_) - point.y) * kUnitsPerPixel)});
  }
  std::vector<Tag> tags(outline.tags.begin(), outline.tags.end());
  std::vector<End> ends(outline.ends.begin(), outline.ends.end());
  FT_Outline shape{};
  shape.n_points = static_cast<decltype(shape.n_points)>(points.size());
  shape.n_contours = static_cast<decltype(shape.n_contours)>(ends.size());
  shape.points = points.data();
  shape.tags = tags.data();
  shape.contours = ends.data();
  FillJob job{this, color, opacity};
  FT_Raster_Params params{};
  params.flags = FT_RASTER_FLAG_AA | FT_RASTER_FLAG_DIRECT | FT_RASTER_FLAG_CLIP;
  params.gray_spans = fill_spans;
  params.user = &job;
  params.clip_box = {0, 0, width_, height_};
  if (const int code = FT_Outline_Render(rasterizer_->get(), &shape, &params); code != 0) {
    throw InternalError("FreeType cannot fill an outline (error " + std::to_string(code) + ")");
  }
}

void Canvas::dot(std::int64_t x, std::int64_t y, Color color) {
  if (x >= 0 && x < width_ && y >= 0 && y < height_) blend_span(x, y, 1, color, 256);
}

void Canvas::blend_span(std::int64_t x, std::int64_t y, std::int64_t length, Color color, int weight) noexcept {
  std::uint8_t* at = pixels_.data() + (y * width_ + x) * 3;
  for (std::int64_t i = 0; i < length; ++i, at += 3) {
    at[0] = mixed(at[0], color.red, weight);
    at[1] = mixed(at[1], color.green, weight);
    at[2] = mixed(at[2], color.blue, weight);
  }
}

void Canvas::smooth() {
  const std::vector<std::uint8_t> sharp = pixels_;
  const std::int64_t row = width_ * 3;
  for (std::int64_t y = 1; y + 1 < height_; ++y) {
    const std::uint8_t* from = sharp.data() + y * row;
    std::uint8_t* to = pixels_.data() + y * row;
    for (std::int64_t i = 3; i < row - 3; ++i) {
      const int around = from[i - row - 3] + from[i - row] + from[i - row + 3] + from[i - 3] + from[i + 3] +
                         from[i + row - 3] + from[i + row] + from[i + row + 3];
      to[i] = static_cast<std::uint8_t>((around + 5 * from[i] + 6) / 13);
    }
  }
}

}  // namespace lockstep::captcha
