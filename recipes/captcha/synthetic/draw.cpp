// SPDX-License-Identifier: Apache-2.0
// The custom style, and the choice between the two. The original style: a white background, 40-pixel letters at a pitch
// of width / (letters + 1), shifted by up to 5 pixels each way, half of them with a shadow 1 to 3 pixels away, 5 to 8
// lines of width 1 to 3, and 100 to 300 points. Lines and points are drawn over the letters. Outlines are read unscaled
// and unhinted, so that they can be rotated and warped.
#include "captcha/synthetic/draw.h"

#include <fmt/format.h>
#include <ft2build.h>

#include <algorithm>
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
    throw UsageError(fmt::format("font {} has no glyph for '{}'", file, letter));
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

constexpr double kNominalHeight = 60;
constexpr double kSize = 40;        // pixels per em, for an image height of 60
constexpr double kCapitals = 0.73;  // height of a capital, as a fraction of an em
constexpr int kJitter = 5;          // pixels
constexpr Color kShadow{100, 100, 100};

Outline letter_at(const Outline& glyph, double em, double x, double baseline) {
  Outline letter = glyph;
  for (Point& point : letter.points) point = {point.x * em + x, point.y * em + baseline};
  return letter;
}

void draw_letters(Canvas& canvas, const std::string& label, const Painter& painter, SampleRandom& random) {
  const double em = kSize * static_cast<double>(canvas.height()) / kNominalHeight;
  const std::int64_t pitch = canvas.width() / (static_cast<std::int64_t>(label.size()) + 1);
  const double baseline = (static_cast<double>(canvas.height()) + em * kCapitals) / 2;
  std::int64_t middle = pitch;
  for (const char character : label) {
    const Outline& glyph = painter.fonts.glyph(random.below(painter.fonts.size()), character);
    const Box box = box_of(glyph);
    const double x = static_cast<double>(middle + random.between(-kJitter, kJitter)) - (box.left + box.right) / 2 * em;
    const double y = baseline + static_cast<double>(random.between(-kJitter, kJitter));
    if (random.chance(0.5)) {
      const auto offset = static_cast<double>(random.between(1, 3));
      canvas.fill(letter_at(glyph, em, x + offset, y + offset), kShadow);
    }
    canvas.fill(letter_at(glyph, em, x, y), random_color(random, 0, 150));
    middle += pitch;
  }
}

void draw_lines(Canvas& canvas, SampleRandom& random) {
  const auto count = random.between(5, 8);
  for (std::int64_t i = 0; i < count; ++i) {
    std::array<Point, 2> path;
    for (Point& end : path) {
      end = {static_cast<double>(random.between(0, canvas.width())),
             static_cast<double>(random.between(0, canvas.height()))};
    }
    const auto width = static_cast<double>(random.between(1, 3));
    canvas.fill(stroke(path, width), random_color(random, 0, 128));
  }
}

void draw_points(Canvas& canvas, SampleRandom& random) {
  const auto count = random.between(100, 300);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t x = random.between(0, canvas.width() - 1);
    const std::int64_t y = random.between(0, canvas.height() - 1);
    canvas.dot(x, y, random_color(random, 0, 255));
  }
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

Color random_color(SampleRandom& random, int low, int high) {
  // Braces fix the order in which the channels are drawn; the evaluation order of function arguments is unspecified.
  return Color{static_cast<int>(random.between(low, high)), static_cast<int>(random.between(low, high)),
               static_cast<int>(random.between(low, high))};
}

Canvas render_custom(const std::string& label, const Painter& painter, SampleRandom& random) {
  Canvas canvas(painter.rasterizer, painter.shape.width, painter.shape.height, {255, 255, 255});
  draw_letters(canvas, label, painter, random);
  draw_lines(canvas, random);
  draw_points(canvas, random);
  return canvas;
}

Canvas render(const std::string& label, Style style, const Painter& painter, SampleRandom& random) {
  return style == Style::kSimple ? render_simple(label, painter, random) : render_custom(label, painter, random);
}

}  // namespace lockstep::captcha
