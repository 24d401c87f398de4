// SPDX-License-Identifier: Apache-2.0
// Draws one captcha. All randomness comes from the given stream; the same stream gives the same pixels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "captcha/synthetic/draw_canvas.h"
#include "lockstep/base/fonts.h"
#include "lockstep/data/sample_random.h"

namespace lockstep::captcha {

/// The letters of a charset in several typefaces, read once and then shared by all threads: outlines one em in size,
/// with the baseline at y = 0 and y growing downwards. Thread-safe: yes, it is immutable.
class FontSet {
 public:
  /// Reads the fonts of Debian's fonts-dejavu-core from `folder`.
  /// Throws: ResourceError naming a missing font and the package; UsageError if a font lacks a character.
  explicit FontSet(const std::string& charset, const std::filesystem::path& folder = font_folder());

  [[nodiscard]] std::size_t size() const noexcept { return faces_.size(); }
  [[nodiscard]] const Outline& glyph(std::size_t font, char letter) const { return faces_.at(font).at(letter); }

 private:
  std::vector<std::map<char, Outline>> faces_;
};

enum class Style { kSimple, kCustom };

/// The size of an image in pixels. The size of the letters depends on the height; their spacing depends on how many
/// there are.
struct ImageShape {
  std::int64_t width = 160;
  std::int64_t height = 60;
};

/// The tools for drawing a label. Lifetime: both outlive the call.
struct Painter {
  const FontSet& fonts;
  Rasterizer& rasterizer;
  ImageShape shape = {};
};

/// Draws the captcha of `label`, whose characters are in the painter's fonts. Lifetime: the rasterizer outlives the
/// canvas. Source: the two generators of AWDSCAN/pytorch-captcha: 'simple' is Python's captcha package, 'custom' is its
/// own.
[[nodiscard]] Canvas render(const std::string& label, Style style, const Painter& painter, SampleRandom& random);

/// Draws crowded letters, each rotated and warped, with dots and a curve of the same colour, and smooths the image.
[[nodiscard]] Canvas render_simple(const std::string& label, const Painter& painter, SampleRandom& random);

/// Draws upright letters of several colours at jittered positions, half of them with a shadow, under lines and points.
[[nodiscard]] Canvas render_custom(const std::string& label, const Painter& painter, SampleRandom& random);

/// Returns a colour with each channel drawn at random from `low` to `high`, inclusive.
[[nodiscard]] Color random_color(SampleRandom& random, int low, int high);

}  // namespace lockstep::captcha
