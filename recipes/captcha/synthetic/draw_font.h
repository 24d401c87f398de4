// SPDX-License-Identifier: Apache-2.0
// The letters of a charset in several typefaces, read once and then shared by all threads.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "captcha/synthetic/draw_canvas.h"
#include "lockstep/base/fonts.h"

namespace lockstep::captcha {

/// Outlines of one em, with the baseline at y = 0 and y growing downwards. Thread-safe: yes, it does not change.
class FontSet {
 public:
  /// Reads the fonts of Debian's fonts-dejavu-core from `folder`.
  /// Throws: ResourceError naming a font that is missing and the package; UsageError where one lacks a character.
  explicit FontSet(const std::string& charset, const std::filesystem::path& folder = font_folder());

  [[nodiscard]] std::size_t size() const noexcept { return faces_.size(); }
  [[nodiscard]] const Outline& glyph(std::size_t font, char letter) const { return faces_.at(font).at(letter); }

 private:
  std::vector<std::map<char, Outline>> faces_;
};

}  // namespace lockstep::captcha
