// SPDX-License-Identifier: Apache-2.0
// Draws text on images for users, broken into lines. No torch header.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/decode.h"

namespace lockstep::common {

/// Letters of one size, drawn with FreeType and the font of Debian's fonts-dejavu-core. Without the font nothing is
/// drawn, and lines() returns none. Text is UTF-8; invalid bytes count as '?'. Thread-safe: no.
class Lettering {
 public:
  explicit Lettering(int pixels);
  ~Lettering();
  Lettering(const Lettering&) = delete;
  Lettering& operator=(const Lettering&) = delete;

  [[nodiscard]] bool has_font() const noexcept;
  /// Returns the distance from one line to the next.
  [[nodiscard]] std::int64_t line_height() const noexcept;
  [[nodiscard]] std::int64_t width(const std::string& text) const;
  /// Returns lines of at most `width` pixels, broken at spaces; a wider word is broken anywhere.
  [[nodiscard]] std::vector<std::string> lines(const std::string& text, std::int64_t width) const;
  /// Draws `text` with its upper left corner at `left_top`; parts outside the image are clipped.
  /// Shapes: an image with 3 channels.
  void write(Image& image, std::array<std::int64_t, 2> left_top, const std::string& text,
             const std::array<std::uint8_t, 3>& ink) const;

 private:
  struct Font;
  std::unique_ptr<Font> font_;
  int pixels_;
};

}  // namespace lockstep::common
