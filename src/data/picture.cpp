// SPDX-License-Identifier: Apache-2.0
// Pixels, which are decoded once.
#include "lockstep/data/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "data/codec.h"
#include "data/exif.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep {
namespace {

DataError unreadable(const EncodedImage& encoded, const std::string& why) {
  return DataError(fmt::format("cannot read image {}: {} ({} bytes)", encoded.name, why, encoded.bytes.size()),
                   "replace the file or remove it from the set");
}

Image copied(const PixelView& view) {
  Image image{view.size, view.channels, {}};
  image.pixels.reserve(static_cast<std::size_t>(view.row_bytes() * view.size.height));
  for (std::int64_t y = 0; y < view.size.height; ++y) {
    image.pixels.insert(image.pixels.end(), view.row(y), view.row(y) + view.row_bytes());
  }
  return image;
}

PixelView part_of(const PixelView& view, const Region& region) {
  PixelView part = view;
  part.data = view.row(region.top) + region.left * view.channels;
  part.stride = view.stride == 0 ? view.row_bytes() : view.stride;
  part.size = region.size;
  return part;
}

void check_inside(const Region& region, ImageSize size) {
  const bool inside = region.left >= 0 && region.top >= 0 && region.size.width > 0 && region.size.height > 0 &&
                      region.left + region.size.width <= size.width && region.top + region.size.height <= size.height;
  if (!inside) {
    throw UsageError(fmt::format("a crop of {} x {} at ({}, {}) is not inside an image of {} x {}", region.size.width,
                                 region.size.height, region.left, region.top, size.width, size.height));
  }
}

}  // namespace

ImageSize Pixels::size() const {
  if (const auto* image = std::get_if<Image>(&state_)) return image->size;
  if (const auto* view = std::get_if<PixelView>(&state_)) return view->size;
  const auto& encoded = std::get<EncodedImage>(state_);
  const Result<ImageSize> size = encoded.as_stored ? data::stored_size(encoded.bytes) : image_size(encoded.bytes);
  if (!size) throw unreadable(encoded, size.error());
  return size.value();
}

void Pixels::fit_to(ImageSize annotated) {
  auto* encoded = std::get_if<EncodedImage>(&state_);
  if (encoded == nullptr || !data::turn_of_file(encoded->bytes).swap) return;
  const Result<ImageSize> stored = data::stored_size(encoded->bytes);
  encoded->as_stored = stored && stored.value() == annotated && annotated.width != annotated.height;
  static std::atomic<bool> noted{false};
  if (!encoded->as_stored || noted.exchange(true)) return;
  log::note(
      "{}: its EXIF orientation ({}) is not applied: its annotations refer to the {} x {} pixels as stored; similar "
      "files are handled the same way and only counted (lockstep inspect data)",
      encoded->name, data::exif_orientation(encoded->bytes), annotated.width, annotated.height);
}

Image& Pixels::decoded(ColorMode mode) {
  if (const auto* view = std::get_if<PixelView>(&state_)) {
    state_ = copied(*view);
  } else if (const auto* encoded = std::get_if<EncodedImage>(&state_)) {
    Result<Image> image =
        encoded->as_stored ? data::decode_stored(encoded->bytes, mode) : decode_image(encoded->bytes, mode);
    if (!image) throw unreadable(*encoded, image.error());
    data::note_oddity(encoded->name);
    state_ = std::move(image).value();
  }
  return std::get<Image>(state_);
}

PixelView Pixels::view(ColorMode mode) {
  if (const auto* view = std::get_if<PixelView>(&state_)) return *view;
  return view_of(decoded(mode));
}

Box Pixels::crop(const Region& region, ImageSize wanted, ColorMode mode) {
  check_inside(region, size());
  const auto* encoded = std::get_if<EncodedImage>(&state_);
  if (encoded != nullptr && data::is_jpeg(encoded->bytes)) {
    const data::Turn turn = encoded->as_stored ? data::Turn{} : data::turn_of_file(encoded->bytes);
    const ImageSize stored = data::upright(size(), turn);  // upright() maps the upright size back to the stored one
    Result<data::ImagePart> part = data::decode_jpeg_region(
        encoded->bytes, mode, data::stored_region(region, stored, turn), data::upright(wanted, turn));
    if (!part) throw unreadable(*encoded, part.error());
    if (turn.any()) data::set_turned(encoded->bytes);
    data::note_oddity(encoded->name);
    const Box where = data::upright(part->where, part->image.size, turn);
    state_ = data::upright(std::move(std::move(part).value().image), turn);
    return where;
  }
  if (const auto* view = std::get_if<PixelView>(&state_)) {
    state_ = part_of(*view, region);
  } else if (Image& image = decoded(mode); region.size != image.size) {
    image = copied(part_of(view_of(image), region));
  }
  return {0.0F, 0.0F, static_cast<float>(region.size.width), static_cast<float>(region.size.height)};
}

}  // namespace lockstep
