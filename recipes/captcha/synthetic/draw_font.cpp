// SPDX-License-Identifier: Apache-2.0
// Reads outlines unscaled and unhinted, so that drawing is free to turn and warp them.
#include "captcha/synthetic/draw_font.h"

#include <fmt/format.h>
#include <ft2build.h>
#include <array>
#include <memory>
#include <type_traits>
#include FT_FREETYPE_H

#include "lockstep/base/error.h"

namespace lockstep::captcha {
namespace {

constexpr std::array kFiles{"DejaVuSans.ttf",          "DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf",
                            "DejaVuSansMono-Bold.ttf", "DejaVuSerif.ttf",     "DejaVuSerif-Bold.ttf"};

struct FaceDone {
  void operator()(FT_Face face) const noexcept { FT_Done_Face(face); }
};
using Face = std::unique_ptr<std::remove_pointer_t<FT_Face>, FaceDone>;

Outline outline_of(FT_Face face, char letter, const std::string& file) {
  const FT_UInt index = FT_Get_Char_Index(face, static_cast<FT_ULong>(letter));
  if (index == 0 || FT_Load_Glyph(face, index, FT_LOAD_NO_SCALE | FT_LOAD_NO_BITMAP) != 0) {
    throw UsageError(fmt::format("font {} has no letter '{}'", file, letter));
  }
  const FT_Outline& from = face->glyph->outline;
  const double em = face->units_per_EM;
  Outline outline;
  for (int i = 0; i < from.n_points; ++i) {
    outline.points.push_back({static_cast<double>(from.points[i].x) / em, -static_cast<double>(from.points[i].y) / em});
    outline.tags.push_back(static_cast<unsigned char>(from.tags[i]));
  }
  outline.ends.assign(from.contours, from.contours + from.n_contours);
  return outline;
}

}  // namespace

FontSet::FontSet(const std::string& charset, const std::filesystem::path& folder) {
  const Rasterizer library;
  for (const char* name : kFiles) {
    const std::string file = (folder / name).string();
    FT_Face opened = nullptr;
    if (FT_New_Face(library.get(), file.c_str(), 0, &opened) != 0) {
      throw ResourceError(fmt::format("font {} is missing or damaged", file), "apt-get install fonts-dejavu-core");
    }
    const Face face(opened);
    auto& glyphs = faces_.emplace_back();
    for (const char letter : charset) glyphs.emplace(letter, outline_of(opened, letter, file));
  }
}

}  // namespace lockstep::captcha
