// SPDX-License-Identifier: Apache-2.0
#include "common/lettering.h"

#include <ft2build.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include FT_FREETYPE_H

#include "lockstep/base/fonts.h"
#include "lockstep/base/split.h"

namespace lockstep::common {
namespace {

struct Letter {
  char32_t code = U'?';
  std::size_t bytes = 1;
};

/// Returns the character that begins at `at`.
Letter letter_at(const std::string& text, std::size_t at) {
  const auto first = static_cast<std::uint8_t>(text[at]);
  const std::size_t bytes = first < 0x80 ? 1 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 0;
  if (bytes == 0 || at + bytes > text.size()) return {};
  char32_t code = bytes == 1 ? first : first & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<std::uint8_t>(text[at + i]);
    if ((next & 0xC0U) != 0x80) return {};
    code = code << 6 | (next & 0x3FU);
  }
  return {code, bytes};
}

void blend(std::uint8_t* pixel, const std::array<std::uint8_t, 3>& ink, unsigned cover) {
  for (std::size_t c = 0; c < ink.size(); ++c) {
    pixel[c] = static_cast<std::uint8_t>((pixel[c] * (255 - cover) + ink[c] * cover + 127) / 255);
  }
}

}  // namespace

struct Lettering::Font {
  FT_Library library = nullptr;
  FT_Face face = nullptr;

  Font(const Font&) = delete;
  Font& operator=(const Font&) = delete;
  explicit Font(int pixels) {
    if (FT_Init_FreeType(&library) != 0) library = nullptr;
    const std::string file = font_folder() / "DejaVuSans.ttf";
    if (library == nullptr || FT_New_Face(library, file.c_str(), 0, &face) != 0) face = nullptr;
    if (face != nullptr) FT_Set_Pixel_Sizes(face, 0, static_cast<FT_UInt>(pixels));
  }
  ~Font() {
    if (face != nullptr) FT_Done_Face(face);
    if (library != nullptr) FT_Done_FreeType(library);
  }

  void note_if_missing(char32_t code) const {
    if (face != nullptr && code > 0x7F && FT_Get_Char_Index(face, code) == 0) note_missing_glyph(code);
  }

  /// Returns the letter's glyph; nullptr if there is none.
  [[nodiscard]] FT_GlyphSlot glyph(char32_t code, bool drawn) const {
    if (face == nullptr || FT_Load_Char(face, code, drawn ? FT_LOAD_RENDER : FT_LOAD_DEFAULT) != 0) return nullptr;
    return face->glyph;
  }
};

Lettering::Lettering(int pixels) : font_(std::make_unique<Font>(pixels)), pixels_(pixels) {}
Lettering::~Lettering() = default;

bool Lettering::has_font() const noexcept { return font_->face != nullptr; }

std::int64_t Lettering::line_height() const noexcept { return has_font() ? pixels_ + pixels_ / 3 : 0; }

std::int64_t Lettering::width(const std::string& text) const {
  std::int64_t sum = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Letter letter = letter_at(text, at);
    const FT_GlyphSlot glyph = font_->glyph(letter.code, false);
    sum += glyph == nullptr ? 0 : glyph->advance.x / 64;
    at += letter.bytes;
  }
  return sum;
}

std::vector<std::string> Lettering::lines(const std::string& text, std::int64_t width) const {
  std::vector<std::string> lines;
  if (!has_font()) return lines;
  const std::int64_t blank = this->width(" ");
  std::int64_t used = 0;
  for (const std::string& word : text::split_words(text)) {
    const std::int64_t wide = this->width(word);
    if (!lines.empty() && used + blank + wide <= width) {
      lines.back() += ' ' + word;
      used += blank + wide;
      continue;
    }
    lines.emplace_back();
    used = 0;
    for (std::size_t at = 0; at < word.size();) {
      const std::string letter = word.substr(at, letter_at(word, at).bytes);
      const std::int64_t step = this->width(letter);
      if (used > 0 && used + step > width) {
        lines.emplace_back();
        used = 0;
      }
      lines.back() += letter;
      used += step;
      at += letter.size();
    }
  }
  return lines;
}

void Lettering::write(Image& image, std::array<std::int64_t, 2> left_top, const std::string& text,
                      const std::array<std::uint8_t, 3>& ink) const {
  auto [left, top] = left_top;
  for (std::size_t at = 0; at < text.size();) {
    const Letter letter = letter_at(text, at);
    at += letter.bytes;
    font_->note_if_missing(letter.code);
    const FT_GlyphSlot glyph = font_->glyph(letter.code, true);
    if (glyph == nullptr) continue;
    const FT_Bitmap& bitmap = glyph->bitmap;
    for (unsigned i = 0; i < bitmap.rows * bitmap.width; ++i) {
      const std::int64_t x = left + glyph->bitmap_left + i % bitmap.width;
      const std::int64_t y = top + pixels_ - glyph->bitmap_top + i / bitmap.width;
      if (x < 0 || y < 0 || x >= image.size.width || y >= image.size.height) continue;
      const unsigned cover = bitmap.buffer[i / bitmap.width * static_cast<unsigned>(bitmap.pitch) + i % bitmap.width];
      blend(image.pixels.data() + 3 * (y * image.size.width + x), ink, cover);
    }
    left += glyph->advance.x / 64;
  }
}

}  // namespace lockstep::common
