// SPDX-License-Identifier: Apache-2.0
// Pages of pictures with captions: what is where, and that words stay inside their cells.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "captioning/page.h"
#include "common/lettering.h"
#include "lockstep/base/error.h"
#include "support/fault_of.h"

namespace lockstep::captioning {
namespace captioning_page_test {

using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Lt;

Image plain_picture(ImageSize size, std::vector<std::uint8_t> color) {
  Image image{size, static_cast<std::int64_t>(color.size()), {}};
  for (std::int64_t i = 0; i < size.width * size.height; ++i) {
    image.pixels.insert(image.pixels.end(), color.begin(), color.end());
  }
  return image;
}

std::vector<int> pixel_at(const Image& image, std::int64_t x, std::int64_t y) {
  const auto at = image.pixels.begin() + 3 * (y * image.size.width + x);
  return {at, at + 3};
}

/// Bright pixels in a rectangle: those of words on the dark paper.
std::int64_t bright(const Image& image, std::int64_t left, std::int64_t top, ImageSize size) {
  std::int64_t count = 0;
  for (std::int64_t y = top; y < top + size.height; ++y) {
    for (std::int64_t x = left; x < left + size.width; ++x) count += pixel_at(image, x, y)[1] > 100 ? 1 : 0;
  }
  return count;
}

class CaptioningPage : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!common::Lettering(13).has_font()) GTEST_SKIP() << "fonts-dejavu-core is not installed";
  }
};

TEST_F(CaptioningPage, BreaksLinesAtBlanksAndWideWordsAnywhere) {
  const common::Lettering letters(13);
  const std::int64_t wide = letters.width("on the left");
  EXPECT_THAT(letters.lines("a red disc on the left", wide), ElementsAre("a red disc", "on the left"));
  EXPECT_THAT(letters.lines("a  red disc", letters.width("a red disc") - 1), ElementsAre("a red", "disc"));
  EXPECT_THAT(letters.lines("", 50), IsEmpty());
  std::string joined;
  for (const std::string& line : letters.lines("Rindfleischetikettierungsüberwachung", 60)) {
    EXPECT_LE(letters.width(line), 60);
    joined += line;
  }
  EXPECT_EQ(joined, "Rindfleischetikettierungsüberwachung");
  EXPECT_THAT(letters.lines("ab", 1), ElementsAre("a", "b")) << "a letter stands somewhere";
}

TEST_F(CaptioningPage, DrawsTheSameForBytesThatAreNoUtf8AsForQuestionMarks) {
  const common::Lettering letters(13);
  EXPECT_EQ(letters.width("a\x80\xFFz\xC3"), letters.width("a??z?"));
  Image image = plain_picture({20, 20}, {0, 0, 0});
  letters.write(image, {15, 12}, "WWW\xE2", {255, 255, 255});  // reaches over the edge
  EXPECT_GT(std::ranges::max(image.pixels), 200);
}

TEST_F(CaptioningPage, HasPicturesInAGridWithTheirWordsBelow) {
  std::vector<CaptionedPicture> pictures;
  for (int i = 0; i < 3; ++i) {
    pictures.push_back({.picture = plain_picture({40, 20}, {200, static_cast<std::uint8_t>(50 * i), 30}),
                        .caption = "a red disc left of a star",
                        .reference = i == 1 ? "" : "there is a disc",
                        .cider_d = {}});
  }
  const Image page = caption_page(pictures, {.columns = 2, .cell = 120});
  const common::Lettering letters(13);
  EXPECT_EQ(page.size.width, 8 + 2 * 128);
  const std::int64_t words = 4 + 3 * letters.line_height();  // two lines of caption, one of reference
  EXPECT_EQ(page.size.height, 8 + 2 * (60 + words + 8));
  EXPECT_THAT(pixel_at(page, 8, 8), ElementsAre(200, 0, 30));
  EXPECT_THAT(pixel_at(page, 8 + 119, 8 + 59), ElementsAre(200, 0, 30));
  EXPECT_THAT(pixel_at(page, 136, 8), ElementsAre(200, 50, 30));
  EXPECT_THAT(pixel_at(page, 8, 76 + words), ElementsAre(200, 100, 30));
  EXPECT_THAT(pixel_at(page, 7, 8), ElementsAre(24, 24, 24));
  EXPECT_GT(bright(page, 8, 68, {120, words}), 100);
  EXPECT_EQ(bright(page, 128, 0, {8, page.size.height}), 0) << "words stay in their cells";
  EXPECT_GT(bright(page, 8, 72 + 2 * letters.line_height(), {120, letters.line_height()}), 20) << "the reference";
  EXPECT_EQ(bright(page, 136, 72 + 2 * letters.line_height(), {120, letters.line_height()}), 0) << "there is none";
}

TEST_F(CaptioningPage, ShowsTheScoreInItsOwnColour) {
  const CaptionedPicture plain{
      .picture = plain_picture({40, 40}, {0, 0, 0}), .caption = "", .reference = {}, .cider_d = 1.25};
  const Image page = caption_page({plain}, {.columns = 1, .cell = 80});
  std::vector<int> strongest{0, 0, 0};
  for (std::int64_t x = 8; x < 88; ++x) {
    for (std::int64_t y = 88; y < page.size.height; ++y) {
      const std::vector<int> pixel = pixel_at(page, x, y);
      for (std::size_t c = 0; c < 3; ++c) strongest[c] = std::max(strongest[c], pixel[c]);
    }
  }
  EXPECT_THAT(strongest, ElementsAre(Gt(220), Gt(160), Lt(120)));
}

TEST_F(CaptioningPage, SaysInALegendWhoseWordsAreWhose) {
  const CaptionedPicture plain{
      .picture = plain_picture({40, 40}, {0, 0, 0}), .caption = "", .reference = {}, .cider_d = {}};
  const Image without = caption_page({plain}, {.columns = 1});
  const Image page = caption_page({plain}, {.columns = 1, .legend = true});
  const std::int64_t below = page.size.height - without.size.height;
  EXPECT_EQ(below, common::Lettering(13).line_height() + 8);
  EXPECT_GT(bright(page, 8, without.size.height, {page.size.width - 8, below}), 100);
}

TEST_F(CaptioningPage, OfOnePictureIsThePictureWithItsCaptionBelow) {
  const CaptionedPicture small{
      .picture = plain_picture({100, 50}, {9}), .caption = "a dog", .reference = {}, .cider_d = {}};
  const Image one = captioned(small);
  const common::Lettering letters(13);
  EXPECT_EQ(one.size, (ImageSize{300, 150 + 4 + letters.line_height() + 8}));
  EXPECT_THAT(pixel_at(one, 299, 149), ElementsAre(9, 9, 9));
  EXPECT_GT(bright(one, 8, 150, {284, 25}), 20);
  Image large = plain_picture({400, 30}, {1, 2, 3});
  large.pixels[0] = 77;
  const Image same = captioned({.picture = large, .caption = "a dog", .reference = {}, .cider_d = {}});
  EXPECT_EQ(same.size.width, 400);
  EXPECT_TRUE(std::equal(large.pixels.begin(), large.pixels.end(), same.pixels.begin())) << "its pixels as they are";
}

TEST_F(CaptioningPage, RefusesWhatCannotBeDrawn) {
  EXPECT_THAT(test::fault_of<UsageError>([] { (void)caption_page({}); }), HasSubstr("no pictures"));
  const CaptionedPicture good{
      .picture = plain_picture({4, 4}, {0, 0, 0}), .caption = "a", .reference = {}, .cider_d = {}};
  EXPECT_THROW((void)caption_page({good}, {.columns = 0}), UsageError);
  EXPECT_THROW((void)caption_page({good}, {.cell = 0}), UsageError);
  CaptionedPicture torn = good;
  torn.picture.pixels.pop_back();
  EXPECT_THAT(test::fault_of<UsageError>([&] { (void)captioned(torn); }),
              HasSubstr("4 x 4 pixels, 3 channels and 47 bytes"));
  EXPECT_THROW((void)caption_page({CaptionedPicture{}}), UsageError);
}

}  // namespace captioning_page_test
}  // namespace lockstep::captioning
