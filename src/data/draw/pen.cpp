// SPDX-License-Identifier: Apache-2.0
// Draws text with FreeType and the font of Debian's package fonts-dejavu-core.
#include <ft2build.h>

#include <type_traits>
#include FT_FREETYPE_H

#include "data/draw/canvas.h"
#include "lockstep/base/fonts.h"

namespace lockstep::data {
namespace {

/// Returns the next character of the UTF-8 text; an invalid byte becomes '?'.
char32_t next_letter(const std::string& text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(at++);
  if (first < 0x80) return first;
  const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
  if (more == 0) return U'?';
  char32_t letter = first & (0x3fU >> more);
  for (int i = 0; i < more; ++i, ++at) {
    if ((byte(at) & 0xc0U) != 0x80) return U'?';
    letter = letter << 6 | (byte(at) & 0x3fU);
  }
  return letter;
}

}  // namespace

struct Pen::Font {
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

  void note_missing(const std::string& text) const {
    for (std::size_t at = 0; face != nullptr && at < text.size();) {
      const char32_t letter = next_letter(text, at);
      if (letter > 0x7F && FT_Get_Char_Index(face, letter) == 0) note_missing_glyph(letter);
    }
  }

  /// Renders each letter, and calls `take` with its glyph.
  template <class Take>
  void each(const std::string& text, const Take& take) const {
    for (std::size_t at = 0; face != nullptr && at < text.size();) {
      if (FT_Load_Char(face, next_letter(text, at), FT_LOAD_RENDER) != 0) continue;
      if (!take(face->glyph)) return;
    }
  }
};

Pen::Pen(int pixels) : font_(std::make_unique<Font>(pixels)), pixels_(pixels) {}
Pen::~Pen() = default;

std::int64_t Pen::width(const std::string& text) const {
  std::int64_t sum = 0;
  font_->each(text, [&](FT_GlyphSlot glyph) {
    sum += glyph->advance.x / 64;
    return true;
  });
  return sum;
}

void Pen::write(Canvas& canvas, const Region& where, const std::string& text, const Ink& ink) const {
  font_->note_missing(text);
  std::int64_t x = where.left;
  font_->each(text, [&](FT_GlyphSlot glyph) {
    if (x + glyph->advance.x / 64 > where.left + where.size.width) return false;
    const FT_Bitmap& bitmap = glyph->bitmap;
    for (unsigned row = 0; row < bitmap.rows; ++row) {
      for (unsigned column = 0; column < bitmap.width; ++column) {
        const std::uint8_t cover = bitmap.buffer[row * static_cast<unsigned>(bitmap.pitch) + column];
        canvas.tint(x + glyph->bitmap_left + column, where.top + pixels_ - glyph->bitmap_top + row, ink,
                    static_cast<float>(cover) / 255.0F);
      }
    }
    x += glyph->advance.x / 64;
    return true;
  });
}

}  // namespace lockstep::data
