// SPDX-License-Identifier: Apache-2.0
// Draws the grid: each image scaled into its cell, with its marks on it and a line of text below.
#include "lockstep/data/contact_sheet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "data/draw/frame.h"
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
constexpr std::int64_t kWords = 18;     // height of the text below an image, and of a line of the legend, in pixels
constexpr std::int64_t kSwatch = 10;    // side of a colour's square in the legend, in pixels
constexpr ImageSize kFrame{24, 12};     // size of a frame in the legend, in pixels
constexpr float kShareOfMasks = 0.45F;  // weight of the colour in a mask's pixels

/// An image that is scaled to fit its cell, and its place.
struct Cell {
  Image image;
  std::int64_t left = 0;
  std::int64_t top = 0;
  float x_scale = 1;
  float y_scale = 1;

  [[nodiscard]] Region place() const noexcept { return {left, top, image.size}; }
  /// Returns the box in pixels of the sheet, clipped to the image.
  [[nodiscard]] Box box(const Box& original) const {
    const auto x = static_cast<float>(left);
    const auto y = static_cast<float>(top);
    return data::cut_at_edges(
        {x + original.x1 * x_scale, y + original.y1 * y_scale, x + original.x2 * x_scale, y + original.y2 * y_scale},
        place());
  }
};

ImageSize scaled(ImageSize size, std::int64_t longest) {
  const double factor = static_cast<double>(longest) / static_cast<double>(std::max(size.width, size.height));
  const auto side = [&](std::int64_t length) {
    return std::max<std::int64_t>(std::llround(factor * static_cast<double>(length)), 1);
  };
  return {side(size.width), side(size.height)};
}

std::string class_text(std::int64_t label, const ContactSheetOptions& options) {
  const bool named = label >= 0 && label < std::ssize(options.class_names);
  return named ? options.class_names[static_cast<std::size_t>(label)] : fmt::format("{}", label);
}

/// A piece of text with its own colour.
struct Word {
  std::string text;
  Ink ink = kInk;
  const BoxMark* frame = nullptr;  ///< in the legend: the look of a frame; null for a plain colour

  [[nodiscard]] std::int64_t swatch() const noexcept { return frame == nullptr ? kSwatch : kFrame.width; }
};

/// Returns the text below an image: its class, its captions, or its objects by class, in the colours of their frames.
std::vector<Word> words_of(const AnnotatedImage& picture, const ContactSheetOptions& options) {
  if (picture.label) return {{class_text(*picture.label, options)}};
  if (!picture.captions.empty()) return {{text::join(picture.captions, " / ")}};
  if (picture.objects.empty()) return {{std::filesystem::path(picture.name).filename().string()}};
  std::map<std::int64_t, std::int64_t> counts;
  for (const Object& object : picture.objects) ++counts[object.label];
  std::vector<Word> words;
  for (const auto& [label, count] : counts) {
    const std::string name = options.class_names.empty() && counts.size() == 1 ? (count == 1 ? "object" : "objects")
                                                                               : class_text(label, options);
    words.push_back({fmt::format("{} {}  ", count, name), data::ink_of(label)});
  }
  return words;
}

bool has_masks(const AnnotatedImage& picture) {
  return std::ranges::any_of(picture.objects, [](const Object& object) { return object.mask.has_value(); });
}

/// Returns the entries of the legend: the classes of objects and maps, in their colours.
std::vector<Word> legend_of(const std::vector<AnnotatedImage>& pictures, const ContactSheetOptions& options) {
  std::set<std::int64_t> labels;
  bool masks = false;
  for (const AnnotatedImage& picture : pictures) {
    for (const Object& object : picture.objects) labels.insert(object.label);
    masks = masks || has_masks(picture);
    if (has_masks(picture)) continue;
    for (const LabelMap& map : picture.maps) {
      for (const std::uint8_t value : map.image.pixels) {
        if (value != 0 && value != map.fill) labels.insert(value);
      }
    }
  }
  std::vector<Word> words;
  for (const std::int64_t label : labels) {
    const bool only = options.class_names.empty() && labels.size() == 1;
    words.push_back({only && masks ? "object" : class_text(label, options), data::ink_of(label)});
  }
  if (masks) words.push_back({"each mask has its own colour", kPaper});
  for (const BoxMark& mark : options.legend) words.push_back({mark.text, mark.ink, &mark});
  return words;
}

/// Tints all pixels for whose value `ink` returns a colour.
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

/// Draws an object without text, which would cover the image. The legend and the line below explain the colours.
void draw_object(Canvas& canvas, const Cell& cell, const Object& object) {
  const Ink ink = data::ink_of(object.label);
  canvas.frame(cell.box(object.box), ink, 1);
  for (const Point& point : object.points) {
    if (!point.visible) continue;
    const float x = std::floor(static_cast<float>(cell.left) + point.x * cell.x_scale) - 1;
    const float y = std::floor(static_cast<float>(cell.top) + point.y * cell.y_scale) - 1;
    const Box dot = data::cut_at_edges({x, y, x + 3, y + 3}, cell.place());
    const ImageSize size{static_cast<std::int64_t>(dot.width()), static_cast<std::int64_t>(dot.height())};
    canvas.fill({static_cast<std::int64_t>(dot.x1), static_cast<std::int64_t>(dot.y1), size}, ink);
  }
}

void draw_marks(Canvas& canvas, const Cell& cell, const AnnotatedImage& picture) {
  for (const LabelMap& map : picture.maps) {
    if (has_masks(picture)) break;  // the masks show the same pixels, object by object
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
  for (const Object& object : picture.objects) draw_object(canvas, cell, object);
}

/// Writes words one after another. Words that do not fit in the width are omitted.
void write_words(Canvas& canvas, const Pen& pen, Region where, const std::vector<Word>& words) {
  const std::int64_t right = where.left + where.size.width;
  for (const Word& word : words) {
    where.size.width = right - where.left;
    pen.write(canvas, where, word.text, word.ink);
    where.left += pen.width(word.text);
    if (where.left >= right) return;
  }
}

/// The places of the legend's entries, in lines below each other.
struct Legend {
  std::vector<Word> words;
  std::vector<Region> places;
  std::int64_t height = 0;
};

/// Lays out the legend. It is empty without a font: colours without names explain nothing.
Legend lay_out(std::vector<Word> words, const Pen& pen, std::int64_t width) {
  Legend legend{std::move(words), {}, 0};
  if (legend.words.empty() || pen.width("x") == 0) return {};
  std::int64_t left = kGap;
  std::int64_t top = kGap;
  for (const Word& word : legend.words) {
    const std::int64_t wide = word.swatch() + kGap + pen.width(word.text) + 2 * kGap;
    if (left > kGap && left + wide > width) {
      left = kGap;
      top += kWords;
    }
    legend.places.push_back({left, top, {wide, kWords}});
    left += wide;
  }
  legend.height = top + kWords;
  return legend;
}

void draw_legend(Canvas& canvas, const Pen& pen, const Legend& legend, std::int64_t top) {
  for (std::size_t i = 0; i < legend.words.size(); ++i) {
    const Region& place = legend.places[i];
    const Word& word = legend.words[i];
    if (word.frame == nullptr) {
      canvas.fill({place.left, top + place.top + 3, {kSwatch, kSwatch}}, word.ink);
    } else {
      const auto x = static_cast<float>(place.left);
      const auto y = static_cast<float>(top + place.top + 2);
      const Box box{x, y, x + static_cast<float>(kFrame.width), y + static_cast<float>(kFrame.height)};
      data::draw_frame(canvas, box, *word.frame);
    }
    pen.write(canvas, {place.left + word.swatch() + kGap, top + place.top, place.size}, word.text, kInk);
  }
}

/// The number of columns, and the size of a cell.
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
  if (pictures.empty()) throw UsageError("a contact sheet needs at least one image");
  std::vector<Cell> cells;
  for (AnnotatedImage& picture : pictures) cells.push_back(cell_of(picture, options.cell));
  const Grid grid = grid_of(cells, options);
  const Pen pen(kLetters);
  const ImageSize size{grid.columns * (grid.cell.width + kGap) + kGap,
                       grid.rows * (grid.cell.height + kWords + kGap) + kGap};
  const Legend legend = lay_out(legend_of(pictures, options), pen, size.width);
  Canvas canvas({size.width, size.height + legend.height}, kPaper);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    Cell& cell = cells[i];
    const auto at = static_cast<std::int64_t>(i);
    cell.left = kGap + at % grid.columns * (grid.cell.width + kGap);
    cell.top = kGap + at / grid.columns * (grid.cell.height + kWords + kGap);
    canvas.paste(cell.image, cell.left, cell.top);
    draw_marks(canvas, cell, pictures[i]);
    write_words(canvas, pen, {cell.left, cell.top + cell.image.size.height, {grid.cell.width, kWords}},
                words_of(pictures[i], options));
  }
  draw_legend(canvas, pen, legend, size.height - kGap);
  return canvas.image();
}

}  // namespace lockstep
