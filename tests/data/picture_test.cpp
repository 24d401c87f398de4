// SPDX-License-Identifier: Apache-2.0
// Pixels in their three states: encoded, decoded, and a view on memory of somebody else.
#include "lockstep/data/picture.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"

namespace lockstep {
namespace picture_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

EncodedImage golden(const std::string& name) {
  const auto path = std::filesystem::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden" / name;
  auto bytes = std::make_shared<std::string>(FileSystem::system().read(path));
  return {.owner = bytes, .bytes = *bytes, .name = name};
}

Image counting(ImageSize size, std::int64_t channels) {
  Image image{size, channels, std::vector<std::uint8_t>(static_cast<std::size_t>(size.width * size.height * channels))};
  std::iota(image.pixels.begin(), image.pixels.end(), std::uint8_t{0});
  return image;
}

TEST(Pixels, KnowTheirSizeWithoutBeingDecoded) {
  const Pixels pixels(golden("rgb_420.jpg"));
  EXPECT_EQ(pixels.size(), (ImageSize{23, 17}));
  EXPECT_TRUE(pixels.encoded());
}

TEST(Pixels, DecodeOnceInTheModeThatWasAskedForFirst) {
  Pixels pixels(golden("rgb.png"));
  EXPECT_EQ(pixels.decoded(ColorMode::kGray).channels, 1);
  EXPECT_FALSE(pixels.encoded());
  EXPECT_EQ(pixels.decoded(ColorMode::kRgb).channels, 1);
}

TEST(Pixels, OfAViewAreReadInPlaceAndCopiedToBeChanged) {
  const Image image = counting({3, 2}, 1);
  Pixels pixels(view_of(image));
  EXPECT_EQ(pixels.view().data, image.pixels.data());
  pixels.decoded().pixels[0] = 99;
  EXPECT_EQ(image.pixels[0], 0);
  EXPECT_THAT(pixels.decoded().pixels, ElementsAre(99, 1, 2, 3, 4, 5));
}

TEST(Pixels, OfAViewAreCroppedWithoutACopyAgainAndAgain) {
  const Image image = counting({4, 4}, 2);
  Pixels pixels(view_of(image));
  pixels.crop({1, 1, {3, 3}}, {3, 3});
  pixels.crop({1, 1, {2, 1}}, {2, 1});
  EXPECT_EQ(pixels.size(), (ImageSize{2, 1}));
  EXPECT_EQ(pixels.view().data, image.pixels.data() + (2 * 4 + 2) * 2);
  EXPECT_THAT(pixels.decoded().pixels, ElementsAre(20, 21, 22, 23));
}

TEST(Pixels, OfAnImageKeepOnlyTheRegion) {
  Pixels pixels(counting({4, 3}, 1));
  pixels.crop({1, 1, {2, 2}}, {2, 2});
  EXPECT_THAT(pixels.decoded().pixels, ElementsAre(5, 6, 9, 10));
}

TEST(Pixels, RefuseARegionThatReachesOutside) {
  Pixels pixels(counting({4, 3}, 1));
  for (const Region region :
       {Region{-1, 0, {2, 2}}, Region{3, 0, {2, 2}}, Region{0, 2, {2, 2}}, Region{0, 0, {0, 1}}}) {
    EXPECT_THROW(pixels.crop(region, {1, 1}), UsageError);
  }
}

TEST(Pixels, NameTheFileThatCannotBeRead) {
  EncodedImage torn = golden("rgb.png");
  torn.bytes = torn.bytes.substr(0, 100);
  Pixels pixels(torn);
  try {
    (void)pixels.decoded();
    FAIL() << "no DataError";
  } catch (const DataError& fault) {
    EXPECT_THAT(fault.what(), HasSubstr("rgb.png: truncated PNG (100 bytes)"));
  }
}

}  // namespace picture_test
}  // namespace lockstep
