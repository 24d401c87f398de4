// SPDX-License-Identifier: Apache-2.0
// The grid: each picture scaled into its cell, its marks over it, a line of words below.
#include "lockstep/data/contact_sheet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/draw/canvas.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/resample.h"

namespace lockstep {
namespace {

using data::Canvas;
using data::Ink;
using data::Pen;

constexpr Ink kPaper{24, 24, 28};
constexpr Ink kInk{235, 235, 235};
constexpr int kLetters = 12;            // pixels
constexpr std::int64_t kGap = 6;        // pixels between cells
constexpr std::int64_t kWords = 18;     // pixels below a picture
constexpr float kShareOfMasks = 0.45F;  // of the colour over what a mask covers

/// A picture scaled into its place.
struct Cell {
  Image image;
  std::int64_t left = 0;
  std::int64_t top = 0;
  float x_scale = 1;
  float y_scale = 1;

  [[nodiscard]] Box box(const Box& of) const {
    const auto x = static_cast<float>(left);
    const auto y = static_cast<float>(top);
    return {x + of.x1 * x_scale, y + of.y1 * y_scale, x + of.x2 * x_scale, y + of.y2 * y_scale};
  }
};

ImageSize scaled(ImageSize size, std::int64_t longest) {
  const double by = static_cast<double>(longest) / static_cast<double>(std::max(size.width, size.height));
  const auto side = [&](std::int64_t of) {
    return std::max<std::int64_t>(std::llround(by * static_cast<double>(of)), 1);
  };
  return {side(size.width), side(size.height)};
}

std::string class_text(std::int64_t label, const ContactSheetOptions& options) {
  const bool named = label >= 0 && label < std::ssize(options.class_names);
  return named ? options.class_names[static_cast<std::size_t>(label)] : fmt::format("{}", label);
}

std::string words_of(const AnnotatedImage& picture, const ContactSheetOptions& options) {
  if (picture.label) return class_text(*picture.label, options);
  if (!picture.captions.empty()) return text::join(picture.captions, " / ");
  if (!picture.objects.empty()) {
    return fmt::format("{} object{}", picture.objects.size(), picture.objects.size() == 1 ? "" : "s");
  }
  return std::filesystem::path(picture.name).filename().string();
}

/// Colour wherever the plane has a value for which `ink` gives one.
template <class InkOf>
void tint_plane(Canvas& canvas, const Cell& cell, const Image& plane, const InkOf& ink) {
  const Image small = resample(view_of(plane), cell.image.size, Interpolation::kNearest);
  for (std::int64_t i = 0; i < std::ssize(small.pixels); ++i) {
    const std::uint8_t value = small.pixels[static_cast<std::size_t>(i)];
    if (const auto color = ink(value)) {
      canvas.tint(cell.left + i % small.size.width, cell.top + i / small.size.width, *color, kShareOfMasks);
    }
  }
}

void draw_object(Canvas& canvas, const Pen& pen, const Cell& cell, const Object& object, const std::string& name) {
  const Ink ink = data::ink_of(object.label);
  const Box box = cell.box(object.box);
  canvas.frame(box, ink, 1);
  for (const Point& point : object.points) {
    if (!point.visible) continue;
    const Box at = cell.box({point.x, point.y, point.x, point.y});
    canvas.fill({static_cast<std::int64_t>(at.x1) - 1, static_cast<std::int64_t>(at.y1) - 1, {3, 3}}, ink);
  }
  // Small boxes would disappear under their own words.
  const std::int64_t width = pen.width(name) + 2;
  if (name.empty() || static_cast<float>(width) > box.width() || box.height() < 2 * kLetters) return;
  const auto left = static_cast<std::int64_t>(box.x1) + 1;
  const auto top = static_cast<std::int64_t>(box.y1) + 1;
  canvas.fill({left, top, {width, kLetters + 2}}, {0, 0, 0});
  pen.write(canvas, {left + 1, top - 1, {width, kLetters}}, name, ink);
}

void draw_marks(Canvas& canvas, const Pen& pen, const Cell& cell, const AnnotatedImage& picture,
                const ContactSheetOptions& options) {
  for (const LabelMap& map : picture.maps) {
    tint_plane(canvas, cell, map.image, [&](std::uint8_t value) -> std::optional<Ink> {
      return value == 0 || value == map.fill ? std::nullopt : std::optional(data::ink_of(value));
    });
  }
  std::int64_t number = 0;
  for (const Object& object : picture.objects) {
    if (!object.mask) continue;
    const Ink ink = data::ink_of(number++);
    tint_plane(canvas, cell, *object.mask, [&](std::uint8_t value) -> std::optional<Ink> {
      return value == 0 ? std::nullopt : std::optional(ink);
    });
  }
  for (const Object& object : picture.objects) {
    // A number that stands for no name says less than the colour.
    draw_object(canvas, pen, cell, object, options.class_names.empty() ? "" : class_text(object.label, options));
  }
}

/// How many columns there are, and how large a cell is.
struct Grid {
  std::int64_t columns;
  std::int64_t rows;
  ImageSize cell;
};

Grid grid_of(const std::vector<Cell>& cells, const ContactSheetOptions& options) {
  Grid grid{};
  for (const Cell& cell : cells) {
    grid.cell = {std::max(grid.cell.width, cell.image.size.width), std::max(grid.cell.height, cell.image.size.height)};
  }
  const auto count = static_cast<std::int64_t>(cells.size());
  const double shape = static_cast<double>(grid.cell.height + kWords) / static_cast<double>(grid.cell.width);
  const auto even = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(count) * shape)));
  grid.columns = std::min(options.columns > 0 ? options.columns : even, count);
  grid.rows = (count + grid.columns - 1) / grid.columns;
  return grid;
}

Cell cell_of(AnnotatedImage& picture, std::int64_t longest) {
  const PixelView view = picture.pixels.view();
  Cell cell;
  cell.image = resample(view, scaled(view.size, longest));
  cell.x_scale = static_cast<float>(cell.image.size.width) / static_cast<float>(view.size.width);
  cell.y_scale = static_cast<float>(cell.image.size.height) / static_cast<float>(view.size.height);
  return cell;
}

}  // namespace

Image contact_sheet(std::vector<AnnotatedImage> pictures, const ContactSheetOptions& options) {
  if (pictures.empty()) throw UsageError("a contact sheet needs at least one picture");
  std::vector<Cell> cells;
  for (AnnotatedImage& picture : pictures) cells.push_back(cell_of(picture, options.cell));
  const Grid grid = grid_of(cells, options);
  Canvas canvas({grid.columns * (grid.cell.width + kGap) + kGap, grid.rows * (grid.cell.height + kWords + kGap) + kGap},
                kPaper);
  const Pen pen(kLetters);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    Cell& cell = cells[i];
    const auto at = static_cast<std::int64_t>(i);
    cell.left = kGap + at % grid.columns * (grid.cell.width + kGap);
    cell.top = kGap + at / grid.columns * (grid.cell.height + kWords + kGap);
    canvas.paste(cell.image, cell.left, cell.top);
    draw_marks(canvas, pen, cell, pictures[i], options);
    pen.write(canvas, {cell.left, cell.top + cell.image.size.height, {grid.cell.width, kWords}},
              words_of(pictures[i], options), kInk);
  }
  return canvas.image();
}

}  // namespace lockstep
