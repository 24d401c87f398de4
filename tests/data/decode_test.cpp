// SPDX-License-Identifier: Apache-2.0
// Decoding whole images and parts of them, against Pillow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spng.h>
#include <zlib.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/codec.h"
#include "data/hash.h"
#include "data/sources/files/number_map.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/decode.h"
#include "support/fuzz_seeds.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace decode_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Images decoded as Pillow does (golden/make_images.py); files that are truncated, empty or not images.

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden" / name;
}

std::string bytes_of(const std::string& name) { return FileSystem::system().read(golden(name)); }

std::string fault_of(const std::filesystem::path& path) {
  try {
    (void)read_image(path, ColorMode::kGray);
  } catch (const DataError& fault) {
    return fault.what();
  }
  return "no DataError";
}

void write(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
}

TEST(Decode, GivesPillowsBytesForEveryKindOfFile) {
  std::ifstream file(golden("images.json"));
  for (const auto& expected : nlohmann::json::parse(file)) {
    const std::string name = expected["file"];
    const Image gray = read_image(golden(name), ColorMode::kGray);
    const Image rgb = read_image(golden(name), ColorMode::kRgb);
    EXPECT_EQ(gray.size, (ImageSize{expected["width"], expected["height"]})) << name;
    EXPECT_EQ(gray.channels, 1) << name;
    EXPECT_EQ(rgb.channels, 3) << name;
    const std::vector<int> first(gray.pixels.begin(), gray.pixels.begin() + 4);
    EXPECT_EQ(first, expected["first_gray"].get<std::vector<int>>()) << name;
    EXPECT_EQ(test::fnv1a(gray.pixels.data(), gray.pixels.size()), expected["gray"].get<std::string>()) << name;
    EXPECT_EQ(test::fnv1a(rgb.pixels.data(), rgb.pixels.size()), expected["rgb"].get<std::string>()) << name;
  }
}

TEST(Decode, DividesBy255IntoPlanes) {
  const Image image{{2, 1}, 3, {0, 51, 255, 1, 102, 254}};
  std::array<float, 6> planes{};
  to_float_chw(image, planes.data());
  EXPECT_THAT(planes, ::testing::ElementsAre(0.0F, 1 / 255.0F, 0.2F, 0.4F, 1.0F, 254 / 255.0F));
}

TEST(Decode, KeepsTheUpperEightBitsOfADeepPng) {
  const std::array<std::uint16_t, 2> pixels{0x1234, 0xfedc};
  spng_ctx* context = spng_ctx_new(SPNG_CTX_ENCODER);
  spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{2, 1, 16, SPNG_COLOR_TYPE_GRAYSCALE, 0, 0, 0};
  spng_set_ihdr(context, &header);
  ASSERT_EQ(spng_encode_image(context, pixels.data(), sizeof pixels, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE), 0);
  std::size_t size = 0;
  int fault = 0;
  void* png = spng_get_png_buffer(context, &size, &fault);
  const Result<Image> image = decode_image({static_cast<const char*>(png), size}, ColorMode::kGray);
  std::free(png);
  spng_ctx_free(context);
  ASSERT_TRUE(image.ok()) << image.error();
  EXPECT_THAT(image->pixels, ::testing::ElementsAre(0x12, 0xfe));
}

TEST(Decode, TakesTheFastWayForPlainPngsOnly) {
  for (const std::string name : {"rgb.png", "gray.png", "rgba.png"}) {
    for (const ColorMode mode : {ColorMode::kRgb, ColorMode::kGray}) {
      const std::optional<Image> plain = data::decode_plain_png(bytes_of(name), mode);
      ASSERT_TRUE(plain) << name;
      EXPECT_EQ(plain->pixels, read_image(golden(name), mode).pixels) << name;
    }
  }
  for (const std::string name : {"palette.png", "one_bit.png", "gray_alpha.png"}) {
    EXPECT_FALSE(data::decode_plain_png(bytes_of(name), ColorMode::kRgb)) << name;
  }
}

TEST(Decode, LeavesDamagedPngsToTheJudge) {
  const std::string whole = bytes_of("rgb.png");
  for (std::size_t at = 8; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    EXPECT_FALSE(data::decode_plain_png(damaged, ColorMode::kRgb)) << "byte " << at;
    EXPECT_FALSE(data::decode_plain_png(whole.substr(0, at), ColorMode::kRgb)) << "cut at " << at;
  }
}

TEST(Decode, RefusesAPngWhoseHeaderClaimsMoreThanItsBytesCanHold) {
  std::string bytes = bytes_of("rgb.png");
  bytes[18] = bytes[22] = '\x18';  // 6,144 pixels and more in each direction
  const auto crc = static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(bytes.data()) + 12, 17));
  for (std::size_t i = 0; i < 4; ++i) bytes[29 + i] = static_cast<char>(crc >> (24 - 8 * i));
  const Result<Image> image = decode_image(bytes, ColorMode::kRgb);
  ASSERT_FALSE(image.ok());
  EXPECT_NE(image.error().find("its header claims 61"), std::string::npos) << image.error();
}

/// Restores the limit when a test ends.
struct PixelLimit {
  explicit PixelLimit(std::int64_t pixels) { set_max_pixels(pixels); }
  ~PixelLimit() { set_max_pixels(kDefaultMaxPixels); }
  PixelLimit(const PixelLimit&) = delete;
  PixelLimit& operator=(const PixelLimit&) = delete;
};

std::string hostile(const std::string& name) {
  return FileSystem::system().read(test::fuzz_seeds() / "images/hostile" / name);
}

std::string fault_of_bytes(const std::string& bytes) {
  const Result<Image> image = decode_image(bytes, ColorMode::kRgb);
  return image ? "decoded" : image.error();
}

TEST(Decode, RefusesWhatClaimsMorePixelsThanTheLimitBeforeMemoryIsAskedFor) {
  EXPECT_EQ(fault_of_bytes(hostile("progressive.jpg")),
            "16384 x 16384 pixels, more than the 178956970 of data.max_pixels; data.max_pixels=1073741824 allows it");
  EXPECT_THAT(fault_of_bytes(hostile("bits.png")),
              HasSubstr("16384 x 16384 pixels, more than the 178956970 of data.max_pixels; "));
  EXPECT_EQ(fault_of_bytes(hostile("baseline.jpg")), "truncated JPEG: its header claims 6000 x 6000 pixels")
      << "in the limit, but every block takes a bit";
  EXPECT_EQ(data::decode_numbers(hostile("deep.png")).error(), "damaged PNG: its header claims 6000 x 6000 pixels");
  const PixelLimit limit(23 * 17 - 1);
  for (const char* name : {"rgb.png", "rgb_420.jpg"}) {
    EXPECT_EQ(fault_of_bytes(bytes_of(name)),
              "23 x 17 pixels, more than the 390 of data.max_pixels; data.max_pixels=391 allows it")
        << name;
    EXPECT_FALSE(image_size(bytes_of(name)).ok()) << name;
  }
}

TEST(Decode, GivesAPictureOutOfProportionToItsFileAQuarterOfTheLimit) {
  EXPECT_TRUE(data::checked_size(6000, 7000, 10).ok()) << "an empty mask of an aerial picture";
  EXPECT_EQ(data::checked_size(7000, 7000, 1000).error(),
            "7000 x 7000 pixels are implausible for 1000 bytes: such a file may have at most 44739242, a quarter of "
            "data.max_pixels; data.max_pixels=196000000 allows it");
  {
    const PixelLimit named(196'000'000);
    EXPECT_TRUE(data::checked_size(7000, 7000, 1000).ok());
  }
  EXPECT_TRUE(data::checked_size(7000, 7000, 490'000).ok());
  EXPECT_TRUE(data::checked_size(13'000, 13'000, 20'000'000).ok());
  const PixelLimit limit(1'000'000'000);
  EXPECT_TRUE(data::checked_size(15'000, 15'000, 1000).ok()) << "who raises the limit raises both";
  EXPECT_THROW(set_max_pixels(0), UsageError);
}

TEST(Decode, RefusesAPngCutAtAnyLength) {
  const std::string whole = bytes_of("rgb.png");
  ASSERT_TRUE(decode_image(whole, ColorMode::kRgb).ok());
  const std::size_t checksum = 4;  // of the end chunk, which is empty: not needed
  for (std::size_t length = 1; length + checksum < whole.size(); ++length) {
    const Result<Image> image = decode_image(std::string_view(whole).substr(0, length), ColorMode::kRgb);
    ASSERT_FALSE(image.ok()) << "cut at " << length << " of " << whole.size() << " bytes";
    EXPECT_THAT(image.error(), HasSubstr("truncated PNG")) << length;
  }
}

TEST(Decode, RefusesAJpegCutAtAnyLength) {
  const std::string whole = bytes_of("rgb_420.jpg");
  for (std::size_t length = 3; length + 2 < whole.size(); ++length) {
    const Result<Image> image = decode_image(std::string_view(whole).substr(0, length), ColorMode::kGray);
    EXPECT_FALSE(image.ok()) << "cut at " << length << " of " << whole.size() << " bytes";
  }
}

TEST(Decode, SurvivesAFlippedByteAnywhere) {
  for (const std::string name : {"palette.png", "rgb_444.jpg"}) {
    const std::string whole = bytes_of(name);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
      (void)decode_image(damaged, ColorMode::kGray);  // either result is fine; the sanitizers find memory errors
    }
  }
}

TEST(Decode, NamesTheFileAndWhatIsWrongWithIt) {
  const test::TempDir folder;
  const auto file = folder.path() / "0A1B_7.png";
  write(file, bytes_of("rgb.png").substr(0, 200));
  EXPECT_THAT(fault_of(file), AllOf(HasSubstr(file.string()), HasSubstr("truncated PNG"), HasSubstr("200 bytes")));
  write(file, "");
  EXPECT_THAT(fault_of(file), AllOf(HasSubstr(file.string()), HasSubstr("empty file (0 bytes)")));
  write(file, "these are words\n");
  EXPECT_THAT(fault_of(file), AllOf(HasSubstr(file.string()), HasSubstr("neither a PNG nor a JPEG")));
  for (const auto& [bytes, words] : std::vector<std::pair<std::string, std::string>>{
           {std::string("RIFF\x24\0\0\0WEBPVP8 ", 16), "JPEG file, but WebP: convert it to PNG"},
           {"BM6...", "but BMP: convert"},
           {"GIF89a...", "but GIF: convert"},
           {std::string("II*\0....", 8), "but TIFF: convert"},
           {std::string("\0\0\0 ftypavif", 12), "but AVIF: convert"},
           {std::string("\0\0\0\x0cjP  \r\n", 10), "but JPEG 2000: convert"},
           {"\xff\x4f\xff\x51\1\2\3", "but JPEG 2000: convert"},
           {"<!DOCTYPE html><html>", "but an HTML page: download the file again"},
           {"version https://git-lfs.github.com/spec/v1\n", "but a Git LFS pointer: run git lfs pull"}}) {
    write(file, bytes);
    EXPECT_THAT(fault_of(file), HasSubstr(words));
  }
  std::filesystem::remove(file);
  EXPECT_THAT(fault_of(file), HasSubstr(file.string()));
}

TEST(Decode, ResizesToTheWantedSize) {
  const Image flat{{4, 4}, 1, std::vector<std::uint8_t>(16, 200)};
  for (const ImageSize size : {ImageSize{2, 2}, ImageSize{9, 3}}) {
    const Image resized = resize_image(flat, size);
    EXPECT_EQ(resized.size, size);
    EXPECT_EQ(resized.pixels, std::vector<std::uint8_t>(static_cast<std::size_t>(size.width * size.height), 200));
  }
}

}  // namespace decode_test

namespace jpeg_region_test {

// Parts of a JPEG against the same parts of the whole image, for each kind of subsampling (golden/make_jpegs.py).

std::string bytes_of(const std::string& name) {
  return FileSystem::system().read(std::filesystem::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden" / name);
}

Image cut(const Image& image, const Region& region) {
  Pixels pixels(image);
  pixels.crop(region, region.size);
  return pixels.decoded();
}

std::vector<Region> regions(ImageSize size) {
  std::vector<Region> found;
  for (const std::int64_t left : {0, 1, 7, 8, 15, 16, 17, 31, 40}) {
    for (const std::int64_t top : {0, 1, 8, 15, 16, 17, 33, 47}) {
      for (const std::int64_t side : {1, 2, 13, 16, 27}) found.push_back({left, top, {side, side}});
    }
  }
  found.push_back({0, 0, size});
  found.push_back({5, 0, {size.width - 5, size.height}});
  found.push_back({0, 9, {size.width, size.height - 9}});
  return found;
}

double mean_difference(const Image& a, const Image& b) {
  EXPECT_EQ(a.size, b.size);
  double sum = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) sum += std::abs(int{a.pixels[i]} - int{b.pixels[i]});
  return sum / static_cast<double>(a.pixels.size());
}

/// Means over squares of `factor` x `factor` pixels; the last may be smaller.
Image averaged(const Image& image, std::int64_t factor) {
  Image result{
      {(image.size.width + factor - 1) / factor, (image.size.height + factor - 1) / factor}, image.channels, {}};
  for (std::int64_t y = 0; y < result.size.height; ++y) {
    for (std::int64_t i = 0; i < result.size.width * image.channels; ++i) {
      std::int64_t sum = 0;
      std::int64_t count = 0;
      for (std::int64_t v = y * factor; v < std::min((y + 1) * factor, image.size.height); ++v) {
        const std::int64_t x = i / image.channels;
        for (std::int64_t u = x * factor; u < std::min((x + 1) * factor, image.size.width); ++u, ++count) {
          sum += image.pixels[(v * image.size.width + u) * image.channels + i % image.channels];
        }
      }
      result.pixels.push_back(static_cast<std::uint8_t>((sum + count / 2) / count));
    }
  }
  return result;
}

class JpegPart : public ::testing::TestWithParam<const char*> {};

TEST_P(JpegPart, HasTheBitsOfTheWholePicture) {
  const std::string bytes = bytes_of(GetParam());
  for (const ColorMode mode : {ColorMode::kRgb, ColorMode::kGray}) {
    const Result<Image> whole = data::decode_jpeg(bytes, mode);
    ASSERT_TRUE(whole.ok()) << whole.error();
    for (const Region& region : regions(whole->size)) {
      const auto part = data::decode_jpeg_region(bytes, mode, region, region.size);
      ASSERT_TRUE(part.ok()) << part.error();
      ASSERT_EQ(part->image.size, region.size);
      ASSERT_EQ(part->image.pixels, cut(*whole, region).pixels)
          << region.left << ", " << region.top << ", " << region.size.width << " x " << region.size.height;
    }
  }
}

TEST_P(JpegPart, ComesOutSmallerWhereThatLeavesEnough) {
  const std::string bytes = bytes_of(GetParam());
  const Result<Image> whole = data::decode_jpeg(bytes, ColorMode::kRgb);
  ASSERT_TRUE(whole.ok());
  for (const std::int64_t factor : {2, 4, 8}) {
    const Region region{11, 6, {8 * factor, 8 * factor}};
    const auto part = data::decode_jpeg_region(bytes, ColorMode::kRgb, region, {8, 8});
    ASSERT_TRUE(part.ok()) << part.error();
    const auto scale = static_cast<float>(factor);
    EXPECT_FLOAT_EQ(part->where.x1, 11 / scale - std::floor(11 / scale));
    EXPECT_FLOAT_EQ(part->where.y1, 6 / scale - std::floor(6 / scale));
    EXPECT_FLOAT_EQ(part->where.width(), 8);
    const Image small = averaged(*whole, factor);
    const Region same{11 / factor, 6 / factor, part->image.size};
    EXPECT_LT(mean_difference(part->image, cut(small, same)), 6.0)
        << factor;  // chroma is averaged in a different order; an offset of one pixel gives 20
  }
}

INSTANTIATE_TEST_SUITE_P(EachSubsampling, JpegPart,
                         ::testing::Values("part_444.jpg", "part_422.jpg", "part_420.jpg", "part_progressive.jpg",
                                           "part_gray.jpg"),
                         [](const auto& given) {
                           const std::string name = given.param;
                           return name.substr(0, name.find('.'));
                         });

TEST(JpegRegion, IsJudgedByWhatWasDecoded) {
  const std::string whole = bytes_of("part_420.jpg");
  const std::string_view torn = std::string_view(whole).substr(0, whole.size() * 2 / 3);
  EXPECT_TRUE(data::decode_jpeg_region(torn, ColorMode::kRgb, {0, 0, {93, 20}}, {93, 20}).ok());
  const auto below = data::decode_jpeg_region(torn, ColorMode::kRgb, {0, 60, {93, 15}}, {93, 15});
  ASSERT_FALSE(below.ok());
  EXPECT_EQ(below.error(), "truncated JPEG");
}

TEST(JpegRegion, LeavesTheDecoderGoodForTheNextFile) {
  const std::string whole = bytes_of("part_420.jpg");
  const auto expected = data::decode_jpeg(whole, ColorMode::kRgb);
  for (std::size_t length = 10; length < whole.size(); length += 97) {
    (void)data::decode_jpeg_region(whole.substr(0, length), ColorMode::kGray, {9, 30, {20, 20}}, {5, 5});
    const auto again = data::decode_jpeg(whole, ColorMode::kRgb);
    ASSERT_TRUE(again.ok()) << again.error();
    ASSERT_EQ(again->pixels, expected->pixels);
  }
}

}  // namespace jpeg_region_test
}  // namespace lockstep
