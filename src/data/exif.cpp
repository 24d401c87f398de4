// SPDX-License-Identifier: Apache-2.0
#include "data/exif.h"

#include <algorithm>

namespace lockstep::data {
namespace {

constexpr unsigned kOrientationTag = 0x0112;
constexpr unsigned kShort = 3;  // TIFF's type of 16-bit numbers
constexpr std::size_t kEntryBytes = 12;

unsigned byte_at(std::string_view bytes, std::size_t at) noexcept {
  return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0U;
}

/// Reads numbers from a TIFF header; beyond its end they are 0.
struct Tiff {
  std::string_view bytes;
  bool big_endian;

  [[nodiscard]] unsigned number(std::size_t at, int width) const noexcept {
    unsigned value = 0;
    for (int i = 0; i < width; ++i) {
      const auto place = static_cast<std::size_t>(big_endian ? i : width - 1 - i);
      value = value << 8U | byte_at(bytes, at + place);
    }
    return value;
  }
};

int orientation_of(std::string_view bytes) noexcept {
  const Tiff tiff{bytes, bytes.starts_with("MM")};
  if ((!tiff.big_endian && !bytes.starts_with("II")) || tiff.number(2, 2) != 42) return 1;
  const std::size_t first = tiff.number(4, 4);
  const std::size_t entries = first < bytes.size() ? tiff.number(first, 2) : 0;
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = first + 2 + i * kEntryBytes;
    if (entry + kEntryBytes > bytes.size()) return 1;
    if (tiff.number(entry, 2) != kOrientationTag || tiff.number(entry + 2, 2) != kShort) continue;
    const unsigned value = tiff.number(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace

int exif_orientation(std::string_view jpeg) noexcept {
  constexpr std::string_view kExif("Exif\0\0", 6);
  constexpr unsigned kApp1 = 0xe1;
  constexpr unsigned kScan = 0xda;  // marker before the pixels
  for (std::size_t at = 2; at + 4 <= jpeg.size();) {
    const unsigned marker = byte_at(jpeg, at + 1);
    if (byte_at(jpeg, at) != 0xff || marker == 0xff) {  // bytes outside segments
      ++at;
      continue;
    }
    if (marker == kScan) return 1;
    const std::size_t length = 256 * byte_at(jpeg, at + 2) + byte_at(jpeg, at + 3);
    const std::string_view segment = jpeg.substr(at + 4, std::max<std::size_t>(length, 2) - 2);
    if (marker == kApp1 && segment.starts_with(kExif)) return orientation_of(segment.substr(kExif.size()));
    at += 2 + length;
  }
  return 1;
}

Turn turn_of(int orientation) noexcept {
  const auto is_one_of = [orientation](int a, int b, int c, int d) {
    return orientation == a || orientation == b || orientation == c || orientation == d;
  };
  return {.mirror_x = is_one_of(2, 3, 7, 8), .mirror_y = is_one_of(3, 4, 6, 7), .swap = is_one_of(5, 6, 7, 8)};
}

Turn turn_of_file(std::string_view bytes) noexcept {
  return is_jpeg(bytes) ? turn_of(exif_orientation(bytes)) : Turn{};
}

ImageSize upright(ImageSize stored, const Turn& turn) noexcept {
  return turn.swap ? ImageSize{stored.height, stored.width} : stored;
}

Image upright(Image stored, const Turn& turn) {
  if (!turn.any()) return stored;
  Image image{upright(stored.size, turn), stored.channels, std::vector<std::uint8_t>(stored.pixels.size())};
  std::uint8_t* to = image.pixels.data();
  for (std::int64_t y = 0; y < image.size.height; ++y) {
    for (std::int64_t x = 0; x < image.size.width; ++x, to += image.channels) {
      std::int64_t from_x = turn.swap ? y : x;
      std::int64_t from_y = turn.swap ? x : y;
      if (turn.mirror_x) from_x = stored.size.width - 1 - from_x;
      if (turn.mirror_y) from_y = stored.size.height - 1 - from_y;
      std::copy_n(stored.pixels.data() + (from_y * stored.size.width + from_x) * stored.channels, stored.channels, to);
    }
  }
  return image;
}

Box upright(const Box& place, ImageSize stored, const Turn& turn) noexcept {
  const auto width = static_cast<float>(stored.width);
  const auto height = static_cast<float>(stored.height);
  Box box = place;
  if (turn.mirror_x) box = {width - place.x2, box.y1, width - place.x1, box.y2};
  if (turn.mirror_y) box = {box.x1, height - place.y2, box.x2, height - place.y1};
  return turn.swap ? Box{box.y1, box.x1, box.y2, box.x2} : box;
}

Region stored_region(const Region& region, ImageSize stored, const Turn& turn) noexcept {
  Region from = region;
  if (turn.swap) from = {region.top, region.left, {region.size.height, region.size.width}};
  if (turn.mirror_x) from.left = stored.width - from.left - from.size.width;
  if (turn.mirror_y) from.top = stored.height - from.top - from.size.height;
  return from;
}

}  // namespace lockstep::data
