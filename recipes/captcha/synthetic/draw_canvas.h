// SPDX-License-Identifier: Apache-2.0
// A small RGB canvas that fills outlines, antialiased, with FreeType's rasteriser: letters, lines and curves are all
// outlines. It uses FreeType's fixed-point arithmetic, so the bytes do not depend on the processor's vector units.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

struct FT_LibraryRec_;

namespace lockstep::captcha {

/// Pixels from the left and from the top.
struct Point {
  double x = 0;
  double y = 0;
};

struct Color {
  int red = 0;
  int green = 0;
  int blue = 0;
};

/// Closed contours of lines and Bezier curves, as in a font.
struct Outline {
  std::vector<Point> points;
  std::vector<unsigned char> tags;  ///< FreeType's tags, one per point
  std::vector<int> ends;            ///< the index of each contour's last point
};

/// The extent of an outline's points.
struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;

  [[nodiscard]] double width() const noexcept { return right - left; }
  [[nodiscard]] double height() const noexcept { return bottom - top; }
};
[[nodiscard]] Box box_of(const Outline& outline);

/// Returns the polygon that a pen `width` pixels wide traces along `path`.
[[nodiscard]] Outline stroke(std::span<const Point> path, double width);

/// FreeType's rasteriser. Thread-safe: no; one per thread.
class Rasterizer {
 public:
  Rasterizer();
  [[nodiscard]] FT_LibraryRec_* get() const noexcept { return library_.get(); }

 private:
  std::shared_ptr<FT_LibraryRec_> library_;
};

/// An RGB image to draw on. Lifetime: the rasterizer outlives the canvas.
class Canvas {
 public:
  Canvas(Rasterizer& rasterizer, std::int64_t width, std::int64_t height, Color background);

  /// Blends `color` over the inside of `outline` (nonzero rule). `opacity`: 0 .. 256.
  void fill(const Outline& outline, Color color, int opacity = 256);

  /// Sets a single pixel; ignores a position outside the canvas.
  void dot(std::int64_t x, std::int64_t y, Color color);

  /// Applies a 3 x 3 mean in which the centre has weight 5; border pixels are unchanged.
  void smooth();

  [[nodiscard]] std::int64_t width() const noexcept { return width_; }
  [[nodiscard]] std::int64_t height() const noexcept { return height_; }
  /// Returns the pixels as red, green and blue, row by row from the top.
  [[nodiscard]] const std::vector<std::uint8_t>& pixels() const noexcept { return pixels_; }

  /// Blends `color` over `length` pixels from (x, y), which must be inside. `weight`: 0 .. 256.
  void blend_span(std::int64_t x, std::int64_t y, std::int64_t length, Color color, int weight) noexcept;

 private:
  Rasterizer* rasterizer_;
  std::int64_t width_;
  std::int64_t height_;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace lockstep::captcha
