// SPDX-License-Identifier: Apache-2.0
// An image to draw rectangles, transparent masks and text on. Drawing is clipped at its edges.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "lockstep/data/picture.h"

namespace lockstep::data {

using Ink = std::array<std::uint8_t, 3>;

/// Returns a colour for a number; neighbouring numbers have colours that are easy to distinguish.
[[nodiscard]] Ink ink_of(std::int64_t number);

class Canvas {
 public:
  Canvas(ImageSize size, const Ink& paper);

  void fill(const Region& region, const Ink& ink);
  /// Copies an image with 1 or 3 channels.
  void paste(const Image& image, std::int64_t left, std::int64_t top);
  /// Draws a frame `thick` pixels wide, inside the box.
  void frame(const Box& box, const Ink& ink, std::int64_t thick);
  /// Blends `ink` into the pixel, with a weight of 0 .. 1.
  void tint(std::int64_t x, std::int64_t y, const Ink& ink, float share);

  [[nodiscard]] const Image& image() const noexcept { return image_; }

 private:
  Image image_;
};

/// A font at one size. If the font is missing, all text has width 0 and nothing is drawn.
class Pen {
 public:
  explicit Pen(int pixels);
  ~Pen();
  Pen(const Pen&) = delete;
  Pen& operator=(const Pen&) = delete;

  [[nodiscard]] int height() const noexcept { return pixels_; }
  /// Returns the width of `text`, which is UTF-8. Units: pixels.
  [[nodiscard]] std::int64_t width(const std::string& text) const;
  /// Writes from the upper left corner of `where`; letters that would cross its right edge are omitted.
  void write(Canvas& canvas, const Region& where, const std::string& text, const Ink& ink) const;

 private:
  struct Font;
  std::unique_ptr<Font> font_;
  int pixels_;
};

}  // namespace lockstep::data
