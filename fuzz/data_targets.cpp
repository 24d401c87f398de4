// SPDX-License-Identifier: Apache-2.0
#include "targets.h"

#include <zlib.h>

#include <algorithm>
#include <string>

#include "data/sources/annotations/coco_json.h"
#include "data/sources/annotations/list_parse.h"
#include "data/sources/annotations/voc_parse.h"
#include "data/sources/archives/tar_marks_json.h"
#include "data/sources/archives/tar_parse.h"
#include "data/sources/files/number_map.h"
#include "data/sources/idx/idx_parse.h"
#include "data/sources/packed/packed_parse.h"
#include "lockstep/base/error.h"

namespace lockstep::fuzz {
namespace {

constexpr std::int64_t kMostPixels =
    1 << 20;  // larger ones are rejected or decoded the same way, and would only cost time

bool is_small(ImageSize size) { return size.width * size.height <= kMostPixels; }

void require_whole(const Image& image) {
  require(static_cast<std::int64_t>(image.pixels.size()) == image.size.width * image.size.height * image.channels);
}

// Reads every byte, so that the sanitizer catches a wrong range.
unsigned sum(std::string_view bytes) {
  unsigned total = 0;
  for (const char byte : bytes) total += static_cast<unsigned char>(byte);
  return total;
}

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

std::string png_chunk(const std::string& type, const std::string& content) {
  const std::string counted = type + content;
  const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(counted.data()), static_cast<uInt>(counted.size()));
  return big_endian(static_cast<std::uint32_t>(content.size())) + counted + big_endian(static_cast<std::uint32_t>(crc));
}

std::string stored(std::string_view rows) {
  uLongf size = compressBound(rows.size());
  std::string out(size, '\0');
  compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(rows.data()), rows.size(), 0);
  out.resize(size);
  return out;
}

}  // namespace

unsigned bytes_read = 0;

void png_rows(std::string_view bytes) {
  if (bytes.size() < 8) return;
  const auto choice = [&](std::size_t at) { return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at])); };
  std::string header = big_endian(choice(0) + 256 * (choice(1) % 4)) + big_endian(choice(2) + 1);
  header += {bytes[3], static_cast<char>(choice(4) % 7), '\0', '\0', static_cast<char>(choice(5) % 2)};
  std::string png = "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header);
  if (choice(4) % 7 == 3) png += png_chunk("PLTE", std::string(bytes.substr(8, choice(6) % 256 * 3)));
  if (choice(7) % 4 == 0) png += png_chunk("tRNS", std::string(bytes.substr(8, choice(7))));
  png += png_chunk("IDAT", stored(bytes.substr(8))) + png_chunk("IEND", "");
  images(png);
}

void images(std::string_view bytes) {
  const Result<ImageSize> size = image_size(bytes);
  if (!size || !is_small(*size)) return;
  for (const ColorMode mode : {ColorMode::kGray, ColorMode::kRgb}) {
    const Result<Image> image = decode_image(bytes, mode);
    if (image) require_whole(*image);
  }
  if (const auto numbers = data::decode_numbers(bytes)) {
    require(static_cast<std::int64_t>(numbers->values.size()) == numbers->size.width * numbers->size.height);
  }
  Pixels pixels{EncodedImage{nullptr, bytes, "fuzz"}};
  const Region region{size->width / 3, size->height / 4, {(size->width + 1) / 2, (size->height + 1) / 2}};
  try {
    (void)pixels.crop(region, {1 + region.size.width / 3, 1 + region.size.height / 3});
    require_whole(pixels.decoded());
  } catch (const DataError&) {  // damaged
  }
}

void tar(std::string_view bytes) {
  const Result<data::TarIndex> index = data::parse_tar(bytes);
  if (!index) return;
  for (const data::TarSample& sample : index->samples) {
    AnnotatedImage picture;
    std::vector<data::TarContent> contents;
    for (const data::TarPart& part : sample.parts) {
      require(part.offset <= bytes.size() && part.size <= bytes.size() - part.offset);
      const std::string_view content = bytes.substr(part.offset, part.size);
      if (const auto size = image_size(content); size && !is_small(*size)) return;
      if (data::is_tar_picture(part.extension)) {
        picture.pixels = EncodedImage{nullptr, content, part.extension};
      } else {
        contents.push_back({part.extension, content});
      }
    }
    try {
      (void)data::read_tar_marks(contents, picture);
    } catch (const DataError&) {  // a mask over a damaged image
    }
  }
}

void idx(std::string_view bytes) {
  const Result<IdxFile> file = data::parse_idx(bytes);
  if (!file) return;
  std::int64_t count = 1;
  for (const std::int64_t side : file->shape) count *= side;
  require(count * idx_bytes(file->type) == static_cast<std::int64_t>(file->bytes.size()));
  if (count > 0) (void)file->at(count - 1);
}

void voc(std::string_view bytes) {
  const Result<data::VocPicture> picture = data::parse_voc(bytes);
  if (!picture) return;
  for (const data::VocObject& object : picture->objects) {
    require(object.box.x1 >= 0 && object.box.y1 >= 0 && object.box.width() >= 0 && object.box.height() >= 0);
  }
}

void coco(std::string_view bytes) {
  for (const bool strict : {true, false}) {
    const Result<data::Coco> coco = data::parse_coco(bytes, {.masks = true, .strict = strict});
    if (!coco) continue;
    for (const data::CocoImage& image : coco->images) {
      require(image.objects.size() == image.outlines.size());
      if (!is_small(image.size)) continue;
      for (const data::CocoOutline& outline : image.outlines) {
        const auto mask = data::draw_outline(outline, image.size);
        if (mask && mask->has_value()) require_whole(**mask);
      }
    }
  }
}

void lists(std::string_view bytes) {
  for (const auto& list : {data::parse_csv_list(bytes), data::parse_json_list(bytes)}) {
    if (!list) continue;
    for (const data::ListEntry& entry : list->entries) {
      require(!entry.path.empty());
      for (const std::int64_t label : entry.labels) require(label >= 0 && label < list->label_count);
    }
  }
}

void packed(std::string_view bytes) {
  const Result<data::PackedIndex> index = data::parse_packed(bytes, data::PackedCheck::kLayout);
  if (!index) return;
  for (std::int64_t i = 0; i < index->count; ++i) {
    const data::PackedEntry entry = index->entry(i);
    if (!is_small({entry.width, entry.height})) continue;
    bytes_read += sum(bytes.substr(entry.offset, entry.pixel_bytes));
    const std::string_view marks = bytes.substr(entry.offset + entry.pixel_bytes, entry.marks_bytes);
    require(marks.size() == entry.marks_bytes);
    const auto picture = data::parse_packed_marks(marks, {entry.width, entry.height});
    if (!picture) continue;
    for (const Object& object : picture->objects) {
      if (object.mask) require_whole(*object.mask);
    }
  }
}

}  // namespace lockstep::fuzz
