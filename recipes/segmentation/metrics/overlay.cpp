// SPDX-License-Identifier: Apache-2.0
#include "segmentation/metrics/overlay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/contact_sheet.h"
#include "lockstep/data/resample.h"
#include "segmentation/synthetic/planes.h"

namespace lockstep::segmentation {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kCell = 256;  // pixels of an image's longer side on a page

std::uint8_t class_at(const Image& classes, std::int64_t y, std::int64_t x) {
  return classes.pixels[static_cast<std::size_t>(y * classes.size.width + x)];
}

/// True if the pixel to the right or below has a different class.
bool on_outline(const Image& classes, std::int64_t y, std::int64_t x) {
  const std::uint8_t label = class_at(classes, y, x);
  return (x + 1 < classes.size.width && class_at(classes, y, x + 1) != label) ||
         (y + 1 < classes.size.height && class_at(classes, y + 1, x) != label);
}

std::uint8_t blend(std::uint8_t below, std::uint8_t above, double share) {
  return static_cast<std::uint8_t>((1 - share) * below + share * above + 0.5);
}

/// Adds an image to a sorted list of at most `most` images, unless the list already has it.
template <class Key>
void keep_sorted(std::vector<JudgedPicture>& pictures, const JudgedPicture& picture, std::size_t most, const Key& key) {
  const bool there = std::ranges::any_of(pictures, [&](const auto& one) { return one.index == picture.index; });
  if (there) return;
  const auto place = std::ranges::upper_bound(pictures, key(picture), {}, key);
  if (place == pictures.end() && pictures.size() >= most) return;
  pictures.insert(place, picture);
  if (pictures.size() > most) pictures.pop_back();
}

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <class T>
T take(std::string_view& bytes) {
  T value;
  if (bytes.size() < sizeof(value)) throw InternalError("a truncated gallery of images");
  std::memcpy(&value, bytes.data(), sizeof(value));
  bytes.remove_prefix(sizeof(value));
  return value;
}

ImageSize fitted(ImageSize size) {
  const double factor = static_cast<double>(kCell) / static_cast<double>(std::max(size.width, size.height));
  const auto side = [&](std::int64_t length) {
    return std::max<std::int64_t>(static_cast<std::int64_t>(static_cast<double>(length) * factor + 0.5), 1);
  };
  return {side(size.width), side(size.height)};
}

/// Places `pictures`, all of one size, side by side.
Image side_by_side(const std::vector<Image>& pictures) {
  const ImageSize size = pictures.front().size;
  const auto count = static_cast<std::int64_t>(pictures.size());
  Image row{{size.width * count, size.height}, 3, {}};
  for (std::int64_t y = 0; y < size.height; ++y) {
    for (const Image& picture : pictures) {
      const auto begin = picture.pixels.begin() + y * size.width * 3;
      row.pixels.insert(row.pixels.end(), begin, begin + size.width * 3);
    }
  }
  return row;
}

/// The colours of the classes that occur.
std::vector<BoxMark> legend_of(const std::array<bool, 256>& shown, const std::vector<std::string>& class_names) {
  constexpr std::int64_t kFilled = 6;  // pixels: a frame so wide that it fills the box
  std::vector<BoxMark> legend;
  for (std::size_t label = 0; label < shown.size(); ++label) {
    if (!shown[label] || label == 0 || label == kUnlabelled) continue;
    const std::string name = label < class_names.size() ? class_names[label] : fmt::format("class {}", label);
    legend.push_back({.ink = class_color(static_cast<std::int64_t>(label)), .thick = kFilled, .text = name});
  }
  const std::string first = class_names.empty() ? "class 0" : class_names.front();
  legend.push_back({.ink = {90, 90, 90}, .text = "no colour: " + first + ", or no class at all"});
  return legend;
}

fs::path write_page(const std::vector<JudgedPicture>& pictures, const ImageSource& source, const fs::path& path,
                    const std::vector<std::string>& class_names) {
  std::vector<AnnotatedImage> cells;
  std::array<bool, 256> shown{};
  for (const JudgedPicture& judged : pictures) {
    AnnotatedImage picture = source.get(judged.index);
    const PixelView view = picture.pixels.view();
    std::vector<Image> thrice = {resample(view, fitted(view.size))};
    for (const Image* classes : std::initializer_list<const Image*>{&picture.maps.at(0).image, &judged.classes}) {
      for (const std::uint8_t label : classes->pixels) shown[label] = true;
      const Image drawn = overlay(view, *classes);
      thrice.push_back(resample(view_of(drawn), fitted(view.size)));
    }
    AnnotatedImage cell;
    cell.captions = {fmt::format("{}: mean IoU {:.3f} (image | labels | prediction)",
                                 fs::path(picture.name).filename().string(), judged.quality)};
    cell.pixels = side_by_side(thrice);
    cells.push_back(std::move(cell));
  }
  write_png(contact_sheet(std::move(cells), {.columns = 1, .cell = 3 * kCell, .legend = legend_of(shown, class_names)}),
            path);
  return path;
}

}  // namespace

std::array<std::uint8_t, 3> class_color(std::int64_t label) {
  std::array<std::uint8_t, 3> color{};
  for (int place = 7; label > 0; --place, label >>= 3) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      color[channel] = static_cast<std::uint8_t>(color[channel] | (((label >> channel) & 1) << place));
    }
  }
  return color;
}

Image overlay(const PixelView& picture, const Image& classes, const OverlayOptions& options) {
  if (picture.size != classes.size || classes.channels != 1) {
    throw UsageError(fmt::format("classes of {} x {} pixels for an image of {} x {}", classes.size.width,
                                 classes.size.height, picture.size.width, picture.size.height));
  }
  Image drawn{picture.size, 3, {}};
  drawn.pixels.reserve(static_cast<std::size_t>(picture.size.width * picture.size.height * 3));
  for (std::int64_t y = 0; y < picture.size.height; ++y) {
    const std::uint8_t* row = picture.row(y);
    for (std::int64_t x = 0; x < picture.size.width; ++x) {
      const std::uint8_t label = class_at(classes, y, x);
      const bool colored = label != kUnlabelled && (label != 0 || options.background);
      const double share = !colored ? 0 : (options.outlines && on_outline(classes, y, x) ? 1 : options.opacity);
      const auto color = class_color(label);
      for (std::int64_t c = 0; c < 3; ++c) {
        const std::uint8_t below = row[x * picture.channels + (picture.channels == 3 ? c : 0)];
        drawn.pixels.push_back(blend(below, color[static_cast<std::size_t>(c)], share));
      }
    }
  }
  return drawn;
}

void Gallery::add(JudgedPicture picture) {
  keep_sorted(worst_, picture, each_, [](const JudgedPicture& one) { return std::tuple(one.quality, one.index); });
  keep_sorted(best_, picture, each_, [](const JudgedPicture& one) { return std::tuple(-one.quality, one.index); });
}

std::string Gallery::bytes() const {
  std::string bytes;
  for (const auto* pictures : {&worst_, &best_}) {
    for (const JudgedPicture& one : *pictures) {
      append(bytes, one.index);
      append(bytes, one.quality);
      append(bytes, one.classes.size.width);
      append(bytes, one.classes.size.height);
      bytes.append(reinterpret_cast<const char*>(one.classes.pixels.data()), one.classes.pixels.size());
    }
  }
  return bytes;
}

void Gallery::merge(std::string_view bytes) {
  while (!bytes.empty()) {
    JudgedPicture one;
    one.index = take<std::int64_t>(bytes);
    one.quality = take<double>(bytes);
    one.classes.size.width = take<std::int64_t>(bytes);
    one.classes.size.height = take<std::int64_t>(bytes);
    const auto count = static_cast<std::size_t>(one.classes.size.width * one.classes.size.height);
    if (bytes.size() < count) throw InternalError("a truncated gallery of images");
    one.classes.pixels.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    bytes.remove_prefix(count);
    add(std::move(one));
  }
}

std::vector<fs::path> draw_pictures(const Gallery& gallery, const ImageSource& source, const fs::path& folder,
                                    const std::vector<std::string>& class_names) {
  std::vector<fs::path> files;
  if (!gallery.worst().empty()) files.push_back(write_page(gallery.worst(), source, folder / "worst.png", class_names));
  if (!gallery.best().empty()) files.push_back(write_page(gallery.best(), source, folder / "best.png", class_names));
  return files;
}

}  // namespace lockstep::segmentation
