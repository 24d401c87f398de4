// SPDX-License-Identifier: Apache-2.0
// Pixels: from encoded to decoded, once.
#include "lockstep/data/picture.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

DataError unreadable(const EncodedImage& encoded, const std::string& why) {
  return DataError(fmt::format("cannot read image {}: {} ({} bytes)", encoded.name, why, encoded.bytes.size()),
                   "replace the file or take it out of the set");
}

Image cut(const Image& image, const Region& region) {
  Image part{region.size, image.channels, {}};
  const std::int64_t row = region.size.width * image.channels;
  part.pixels.resize(static_cast<std::size_t>(row * region.size.height));
  for (std::int64_t y = 0; y < region.size.height; ++y) {
    const std::int64_t from = ((region.top + y) * image.size.width + region.left) * image.channels;
    std::copy_n(image.pixels.begin() + from, row, part.pixels.begin() + y * row);
  }
  return part;
}

void check_inside(const Region& region, ImageSize size) {
  const bool inside = region.left >= 0 && region.top >= 0 && region.size.width > 0 && region.size.height > 0 &&
                      region.left + region.size.width <= size.width && region.top + region.size.height <= size.height;
  if (!inside) {
    throw UsageError(fmt::format("a crop of {} x {} at ({}, {}) is not inside a picture of {} x {}", region.size.width,
                                 region.size.height, region.left, region.top, size.width, size.height));
  }
}

}  // namespace

ImageSize Pixels::size() const {
  if (const auto* image = std::get_if<Image>(&state_)) return image->size;
  const auto& encoded = std::get<EncodedImage>(state_);
  const Result<ImageSize> size = image_size(encoded.bytes);
  if (!size) throw unreadable(encoded, size.error());
  return size.value();
}

Image& Pixels::decoded(ColorMode mode) {
  if (const auto* encoded = std::get_if<EncodedImage>(&state_)) {
    Result<Image> image = decode_image(encoded->bytes, mode);
    if (!image) throw unreadable(*encoded, image.error());
    state_ = std::move(image).value();
  }
  return std::get<Image>(state_);
}

void Pixels::crop(const Region& region, ImageSize /*wanted*/, ColorMode mode) {
  check_inside(region, size());
  state_ = cut(decoded(mode), region);
}

}  // namespace lockstep
