// SPDX-License-Identifier: Apache-2.0
// Parts of a JPEG against the same parts of the whole picture, for each way of subsampling (golden/make_jpegs.py).
#include <cmath>
#include <fstream>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "data/codec.h"
#include "lockstep/base/file_system.h"

namespace lockstep {
namespace jpeg_region_test {

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

/// Means over squares of `by` x `by` pixels; the last may be smaller.
Image averaged(const Image& image, std::int64_t by) {
  Image result{{(image.size.width + by - 1) / by, (image.size.height + by - 1) / by}, image.channels, {}};
  for (std::int64_t y = 0; y < result.size.height; ++y) {
    for (std::int64_t i = 0; i < result.size.width * image.channels; ++i) {
      std::int64_t sum = 0;
      std::int64_t count = 0;
      for (std::int64_t v = y * by; v < std::min((y + 1) * by, image.size.height); ++v) {
        const std::int64_t x = i / image.channels;
        for (std::int64_t u = x * by; u < std::min((x + 1) * by, image.size.width); ++u, ++count) {
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
  for (const std::int64_t by : {2, 4, 8}) {
    const Region region{11, 6, {8 * by, 8 * by}};
    const auto part = data::decode_jpeg_region(bytes, ColorMode::kRgb, region, {8, 8});
    ASSERT_TRUE(part.ok()) << part.error();
    const auto scale = static_cast<float>(by);
    EXPECT_FLOAT_EQ(part->where.x1, 11 / scale - std::floor(11 / scale));
    EXPECT_FLOAT_EQ(part->where.y1, 6 / scale - std::floor(6 / scale));
    EXPECT_FLOAT_EQ(part->where.width(), 8);
    const Image small = averaged(*whole, by);
    const Region same{11 / by, 6 / by, part->image.size};
    EXPECT_LT(mean_difference(part->image, cut(small, same)), 6.0)
        << by;  // chroma is averaged in another order; a pixel off gives 20
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
