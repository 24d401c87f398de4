// SPDX-License-Identifier: Apache-2.0
#include "captioning/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "common/lettering.h"
#include "lockstep/base/error.h"
#include "lockstep/data/resample.h"

namespace lockstep::captioning {
namespace {

using Ink = std::array<std::uint8_t, 3>;

constexpr std::uint8_t kPaper = 24;
constexpr Ink kSaidInk{240, 240, 240};
constexpr Ink kReferenceInk{150, 150, 158};
constexpr Ink kScoreInk{255, 196, 84};
constexpr int kLetterPixels = 13;
constexpr std::int64_t kMargin = 8;        // pixels around cells
constexpr std::int64_t kAboveWords = 4;    // pixels between image and words
constexpr std::int64_t kLeastWidth = 240;  // minimum width of a single image's page in pixels
constexpr std::int64_t kMostDrawn = 1920;  // maximum height in pixels of an enlarged image

/// The words below an image, broken into lines.
struct Words {
  std::string score;
  std::vector<std::string> said;  ///< lines of the network's caption; the first begins after the score
  std::vector<std::string> reference;

  [[nodiscard]] std::int64_t height(const common::Lettering& letters) const {
    const auto lines = static_cast<std::int64_t>(said.size() + reference.size());
    return lines == 0 ? 0 : kAboveWords + lines * letters.line_height();
  }
};

/// A scaled image with its words.
struct PageCell {
  Image picture;
  Words words;
};

void check_picture(const Image& picture) {
  const ImageSize size = picture.size;
  const bool whole = size.width > 0 && size.height > 0 && (picture.channels == 1 || picture.channels == 3) &&
                     picture.pixels.size() == static_cast<std::size_t>(size.width * size.height * picture.channels);
  if (whole) return;
  throw UsageError(fmt::format("an image of {} x {} pixels, {} channels and {} bytes cannot be drawn", size.width,
                               size.height, picture.channels, picture.pixels.size()));
}

Image blank_page(ImageSize size) {
  return {size, 3, std::vector<std::uint8_t>(static_cast<std::size_t>(size.width * size.height * 3), kPaper)};
}

void paste_picture(Image& page, const Image& picture, std::int64_t left, std::int64_t top) {
  for (std::int64_t y = 0; y < picture.size.height; ++y) {
    for (std::int64_t x = 0; x < picture.size.width; ++x) {
      const auto from = static_cast<std::size_t>((y * picture.size.width + x) * picture.channels);
      const auto to = static_cast<std::size_t>(((top + y) * page.size.width + left + x) * 3);
      for (std::size_t c = 0; c < 3; ++c) page.pixels[to + c] = picture.pixels[from + (picture.channels == 3 ? c : 0)];
    }
  }
}

Words words_below(const CaptionedPicture& picture, const common::Lettering& letters, std::int64_t width) {
  Words words;
  if (picture.cider_d) words.score = fmt::format("{:.2f}", *picture.cider_d);
  // For line breaking, the score counts as the caption's first word; it is drawn in its own colour.
  words.said = letters.lines(words.score.empty() ? picture.caption : words.score + " " + picture.caption, width);
  words.reference = letters.lines(picture.reference, width);
  return words;
}

void write_words(Image& page, const Words& words, const common::Lettering& letters,
                 std::array<std::int64_t, 2> left_top) {
  auto [left, top] = left_top;
  top += kAboveWords;
  for (const std::string& line : words.said) {
    const bool first = &line == &words.said.front();
    const std::size_t score = first && line.starts_with(words.score) ? words.score.size() : 0;
    letters.write(page, {left, top}, line.substr(0, score), kScoreInk);
    letters.write(page, {left + letters.width(line.substr(0, score)), top}, line.substr(score), kSaidInk);
    top += letters.line_height();
  }
  for (const std::string& line : words.reference) {
    letters.write(page, {left, top}, line, kReferenceInk);
    top += letters.line_height();
  }
}

/// Writes as much of the legend as fits in the page's width.
void write_legend(Image& page, const common::Lettering& letters, std::int64_t top) {
  std::int64_t left = kMargin;
  for (const auto& [words, ink] : {std::pair{"CIDEr-D", kScoreInk}, std::pair{"what the model says", kSaidInk},
                                   std::pair{"what a person says", kReferenceInk}}) {
    letters.write(page, {left, top}, words, ink);
    left += letters.width(words) + 2 * kMargin;
  }
}

PageCell cell_for(const CaptionedPicture& picture, const common::Lettering& letters, std::int64_t longest) {
  const ImageSize size = picture.picture.size;
  const double factor = static_cast<double>(longest) / static_cast<double>(std::max(size.width, size.height));
  const auto side = [&](std::int64_t length) {
    return std::max<std::int64_t>(std::llround(factor * static_cast<double>(length)), 1);
  };
  return {resample(view_of(picture.picture), {side(size.width), side(size.height)}),
          words_below(picture, letters, longest)};
}

}  // namespace

Image caption_page(const std::vector<CaptionedPicture>& pictures, const PageOptions& options) {
  if (pictures.empty()) throw UsageError("a page needs at least one image");
  if (options.columns < 1 || options.cell < 1) {
    throw UsageError(fmt::format("a page has {} columns and cells of {} pixels; both must be at least 1",
                                 options.columns, options.cell));
  }
  const common::Lettering letters(kLetterPixels);
  std::vector<PageCell> cells;
  for (const CaptionedPicture& picture : pictures) {
    check_picture(picture.picture);
    cells.push_back(cell_for(picture, letters, options.cell));
  }
  const auto count = static_cast<std::int64_t>(cells.size());
  const std::int64_t columns = std::min(options.columns, count);
  std::vector<std::int64_t> tops{kMargin};  // top of each row; the last entry is where another row would start
  for (std::int64_t first = 0; first < count; first += columns) {
    std::int64_t height = 0;
    for (std::int64_t i = first; i < std::min(first + columns, count); ++i) {
      const PageCell& cell = cells[static_cast<std::size_t>(i)];
      height = std::max(height, cell.picture.size.height + cell.words.height(letters));
    }
    tops.push_back(tops.back() + height + kMargin);
  }
  const std::int64_t below = options.legend ? letters.line_height() + kMargin : 0;
  Image page = blank_page({kMargin + columns * (options.cell + kMargin), tops.back() + below});
  if (options.legend) write_legend(page, letters, tops.back());
  for (std::int64_t i = 0; i < count; ++i) {
    const PageCell& cell = cells[static_cast<std::size_t>(i)];
    const std::int64_t left = kMargin + i % columns * (options.cell + kMargin);
    const std::int64_t top = tops[static_cast<std::size_t>(i / columns)];
    paste_picture(page, cell.picture, left, top);
    write_words(page, cell.words, letters, {left, top + cell.picture.size.height});
  }
  return page;
}

Image captioned(const CaptionedPicture& picture) {
  check_picture(picture.picture);
  const ImageSize size = picture.picture.size;
  const std::int64_t factor = std::clamp((kLeastWidth + size.width - 1) / size.width, std::int64_t{1},
                                         std::max(kMostDrawn / size.height, std::int64_t{1}));
  const ImageSize large{factor * size.width, factor * size.height};
  const std::int64_t width = std::max(large.width, kLeastWidth);
  const common::Lettering letters(kLetterPixels);
  const Words words = words_below(picture, letters, width - 2 * kMargin);
  const std::int64_t below = words.height(letters);
  Image page = blank_page({width, large.height + below + (below > 0 ? kMargin : 0)});
  paste_picture(page, factor == 1 ? picture.picture : resample(view_of(picture.picture), large), 0, 0);
  write_words(page, words, letters, {kMargin, large.height});
  return page;
}

}  // namespace lockstep::captioning
