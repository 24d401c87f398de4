// SPDX-License-Identifier: Apache-2.0
#include "segmentation/data/label_file.h"

#include <fmt/format.h>
#include <spng.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/decode.h"
#include "segmentation/synthetic/planes.h"

namespace lockstep::segmentation {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDepthAt = 24;  // offset of the bit depth in a PNG file; the colour type follows
constexpr std::size_t kHeaderEnd = 33;
constexpr int kGrayType = 0;
constexpr int kPaletteType = 3;

struct PngKind {
  int depth = 0;  ///< bits; 0: not a PNG
  int color = 0;
};

PngKind png_kind(std::string_view bytes) noexcept {
  if (bytes.size() < kHeaderEnd || !bytes.starts_with("\x89PNG\r\n\x1a\n")) return {};
  return {static_cast<unsigned char>(bytes[kDepthAt]), static_cast<unsigned char>(bytes[kDepthAt + 1])};
}

DataError bad_map(const fs::path& file, const std::string& why, const std::string& hint = "") {
  return DataError(fmt::format("cannot use map {}: {}", file.string(), why), hint);
}

struct LabelDecoderDone {
  void operator()(spng_ctx* context) const noexcept { spng_ctx_free(context); }
};

/// Unpacks one 1- to 16-bit sample per pixel from the rows of the file.
NumberMap unpack_rows(const std::vector<std::uint8_t>& raw, ImageSize size, int depth) {
  NumberMap map{size, {}};
  map.values.reserve(static_cast<std::size_t>(size.width * size.height));
  const std::int64_t row_bytes = (size.width * depth + 7) / 8;
  for (std::int64_t y = 0; y < size.height; ++y) {
    const std::uint8_t* row = raw.data() + y * row_bytes;
    for (std::int64_t x = 0; x < size.width; ++x) {
      if (depth == 16) {
        map.values.push_back(static_cast<std::uint16_t>(row[2 * x] << 8 | row[2 * x + 1]));
      } else {
        const std::int64_t bit = x * depth;
        map.values.push_back(static_cast<std::uint16_t>(row[bit / 8] >> (8 - depth - bit % 8) & ((1 << depth) - 1)));
      }
    }
  }
  return map;
}

/// Decodes with libspng: palettes, 16-bit files, and all damaged files.
NumberMap decode_by_spng(std::string_view bytes, const fs::path& file) {
  const std::unique_ptr<spng_ctx, LabelDecoderDone> context(spng_ctx_new(0));
  const auto check = [&](int code) {
    if (code == 0) return;
    const bool torn = code == SPNG_IO_EOF || code == SPNG_EIDAT_TOO_SHORT;
    throw bad_map(
        file, fmt::format("{} ({} bytes)",
                          torn ? "truncated PNG" : fmt::format("damaged PNG ({})", spng_strerror(code)), bytes.size()));
  };
  const Result<ImageSize> size = image_size(bytes);
  if (!size) throw bad_map(file, fmt::format("{} ({} bytes)", size.error(), bytes.size()));
  constexpr std::size_t kMostChunkBytes = 16 << 20;
  spng_set_crc_action(context.get(), SPNG_CRC_ERROR, SPNG_CRC_DISCARD);
  spng_set_chunk_limits(context.get(), kMostChunkBytes, kMostChunkBytes);
  check(spng_set_png_buffer(context.get(), bytes.data(), bytes.size()));
  spng_ihdr header{};
  check(spng_get_ihdr(context.get(), &header));
  std::size_t length = 0;
  check(spng_decoded_image_size(context.get(), SPNG_FMT_RAW, &length));
  constexpr std::size_t kMostInflation = 1032;  // a header that claims more is invalid
  if (length / kMostInflation > bytes.size())
    throw bad_map(file, "damaged PNG: its header claims more pixels than it holds");
  std::vector<std::uint8_t> raw(length);
  check(spng_decode_image(context.get(), raw.data(), raw.size(), SPNG_FMT_RAW, 0));
  check(spng_decode_chunks(context.get()));
  return unpack_rows(raw, size.value(), header.bit_depth);
}

/// The kind of a file, which must be a valid map.
PngKind checked_kind(std::string_view bytes, const fs::path& file) {
  const PngKind kind = png_kind(bytes);
  if (kind.depth == 0) {
    const Result<ImageSize> size = image_size(bytes);
    throw bad_map(
        file, fmt::format("{} ({} bytes)", size ? "a JPEG, whose values are not exact" : size.error(), bytes.size()),
        "maps are PNG files");
  }
  if (kind.color != kGrayType && kind.color != kPaletteType) {
    throw bad_map(file, "it is a colour image, but a map has one number for each pixel",
                  "write class ids as a gray or palette PNG");
  }
  return kind;
}

/// Reads a map of 8 bits or less; the most common kind is decoded by a faster path than libspng's.
Image small_map(std::string_view bytes, PngKind kind, const fs::path& file) {
  if (kind.depth == 8 && kind.color == kGrayType) {
    if (Result<Image> image = decode_image(bytes, ColorMode::kGray)) return std::move(image).value();
  }
  const NumberMap numbers = decode_by_spng(bytes, file);
  return classes_of(numbers, Numbers::kClasses);
}

}  // namespace

bool is_deep_png(std::string_view bytes) noexcept { return png_kind(bytes).depth == 16; }

NumberMap read_numbers(const fs::path& file) {
  const std::string bytes = FileSystem::system().read(file, kMostPictureBytes);
  (void)checked_kind(bytes, file);
  return decode_by_spng(bytes, file);
}

Image read_map(const fs::path& file, MapMeaning meaning) {
  const std::string bytes = FileSystem::system().read(file, kMostPictureBytes);
  const PngKind kind = checked_kind(bytes, file);
  if (meaning == MapMeaning::kInstances) return classes_of(decode_by_spng(bytes, file), Numbers::kInstances);
  if (kind.depth == 16) {
    throw bad_map(file,
                  fmt::format("it has 16 bits per pixel, but {} have 8",
                              meaning == MapMeaning::kClasses ? "class ids" : "weights"),
                  "maps of instances belong in a folder named instances: any value except 0 is then class 1");
  }
  return small_map(bytes, kind, file);
}

MaskValues plain_mask_values() noexcept {
  MaskValues values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i);
  return values;
}

void require_classes(const Image& map, std::int64_t classes, const fs::path& file) {
  std::array<bool, 256> good{};
  std::fill_n(good.begin(), std::clamp<std::int64_t>(classes, 0, 256), true);
  good[kUnlabelled] = true;
  const auto bad = std::ranges::find_if_not(map.pixels, [&](std::uint8_t value) { return good[value]; });
  if (bad == map.pixels.end()) return;
  const auto at = bad - map.pixels.begin();
  throw DataError(fmt::format("map {} has class {} at pixel ({}, {}), but there are {} classes", file.string(), *bad,
                              at % map.size.width, at / map.size.width, classes),
                  fmt::format("class ids are 0 .. {}, {} is unlabelled", classes - 1, kUnlabelled));
}

}  // namespace lockstep::segmentation
