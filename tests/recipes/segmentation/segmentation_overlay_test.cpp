// SPDX-License-Identifier: Apache-2.0
// The confusion matrix against numbers that a hand can check, and what is drawn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "lockstep/base/error.h"
#include "segmentation/metrics/confusion.h"
#include "segmentation/metrics/overlay.h"
#include "segmentation/synthetic/planes.h"
#include "support/temp_dir.h"

namespace lockstep::segmentation {
namespace segmentation_overlay_test {

using ::testing::HasSubstr;

constexpr std::array<std::uint8_t, 8> kTruth = {0, 0, 0, 1, 1, 2, 255, 255};
constexpr std::array<std::uint8_t, 8> kPredicted = {0, 0, 1, 1, 1, 0, 1, 2};

Confusion example() {
  Confusion confusion(4);
  confusion.add(kTruth.data(), kPredicted.data(), 8);
  return confusion;
}

TEST(SegmentationConfusion, CountsPixelsThatHaveALabel) {
  const Confusion confusion = example();
  EXPECT_EQ(confusion.pixels(), 6);
  EXPECT_EQ(confusion.at(0, 0), 2);
  EXPECT_EQ(confusion.at(0, 1), 1);
  EXPECT_EQ(confusion.at(2, 0), 1);
  EXPECT_DOUBLE_EQ(confusion.pixel_accuracy(), 4.0 / 6);
}

TEST(SegmentationConfusion, GivesTheShareOfWhatEitherSays) {
  const Confusion confusion = example();
  EXPECT_DOUBLE_EQ(confusion.iou(0), 2.0 / 4);
  EXPECT_DOUBLE_EQ(confusion.iou(1), 2.0 / 3);
  EXPECT_DOUBLE_EQ(confusion.iou(2), 0.0);
  EXPECT_DOUBLE_EQ(confusion.recall(0), 2.0 / 3);
  EXPECT_DOUBLE_EQ(confusion.precision(1), 2.0 / 3);
}

TEST(SegmentationConfusion, LeavesClassesThatAreNowhereOutOfTheMean) {
  EXPECT_FALSE(example().has(3));
  EXPECT_DOUBLE_EQ(example().mean_iou(), (2.0 / 4 + 2.0 / 3 + 0) / 3);
  EXPECT_DOUBLE_EQ(Confusion(3).mean_iou(), 0);
}

TEST(SegmentationConfusion, IsTheSameHoweverPixelsAreSpreadOverRanks) {
  Confusion first(4);
  Confusion second(4);
  first.add(kTruth.data(), kPredicted.data(), 3);
  second.add(kTruth.data() + 3, kPredicted.data() + 3, 5);
  second.merge(Confusion::from_bytes(first.bytes(), 4));
  EXPECT_EQ(second.bytes(), example().bytes());
  EXPECT_THROW((void)Confusion::from_bytes(first.bytes(), 3), InternalError);
}

TEST(SegmentationConfusion, RefusesAClassThatThereIsNone) {
  Confusion confusion(2);
  try {
    confusion.add(kTruth.data(), kPredicted.data(), 8);
    FAIL() << "class 2 of 2";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("class 2, and there are 2"));
  }
}

TEST(SegmentationOverlay, HasTheColoursOfPascalVoc) {
  using Color = std::array<std::uint8_t, 3>;
  EXPECT_EQ(class_color(0), (Color{0, 0, 0}));
  EXPECT_EQ(class_color(1), (Color{128, 0, 0}));
  EXPECT_EQ(class_color(2), (Color{0, 128, 0}));
  EXPECT_EQ(class_color(15), (Color{192, 128, 128}));
  EXPECT_EQ(class_color(20), (Color{0, 64, 128}));
}

Image grey(std::int64_t width, std::int64_t height, std::uint8_t value) {
  return {{width, height}, 3, std::vector<std::uint8_t>(static_cast<std::size_t>(width * height * 3), value)};
}

TEST(SegmentationOverlay, ColoursClassesAndLeavesBackgroundAndUnlabelledPixels) {
  const Image picture = grey(4, 1, 100);
  const Image drawn = overlay(view_of(picture), {{4, 1}, 1, {0, 1, 1, 255}}, {.opacity = 0.5, .outlines = false});
  EXPECT_EQ(drawn.pixels, (std::vector<std::uint8_t>{100, 100, 100, 114, 50, 50, 114, 50, 50, 100, 100, 100}));
}

TEST(SegmentationOverlay, DrawsALineWhereAClassEnds) {
  const Image picture = grey(3, 1, 100);
  const Image drawn = overlay(view_of(picture), {{3, 1}, 1, {1, 1, 0}});
  EXPECT_EQ(drawn.pixels[0], 114);
  EXPECT_EQ(drawn.pixels[3], 128);
  EXPECT_EQ(drawn.pixels[6], 100);
}

TEST(SegmentationOverlay, RefusesClassesOfAnotherSize) {
  const Image picture = grey(3, 1, 100);
  EXPECT_THROW((void)overlay(view_of(picture), {{2, 1}, 1, {0, 0}}), UsageError);
}

JudgedPicture judged(std::int64_t index, double quality) {
  return {index, quality, {{2, 1}, 1, {static_cast<std::uint8_t>(index), 0}}};
}

TEST(SegmentationGallery, KeepsTheWorstAndTheBestOfAllRanks) {
  Gallery mine(2);
  Gallery theirs(2);
  for (const auto& [index, quality] : {std::pair{0, 0.5}, {1, 0.9}, {2, 0.1}}) mine.add(judged(index, quality));
  for (const auto& [index, quality] : {std::pair{3, 0.3}, {4, 0.95}, {5, 0.9}}) theirs.add(judged(index, quality));
  Gallery all(2);
  all.merge(theirs.bytes());
  all.merge(mine.bytes());
  ASSERT_EQ(all.worst().size(), 2U);
  EXPECT_EQ(all.worst()[0].index, 2);
  EXPECT_EQ(all.worst()[1].index, 3);
  EXPECT_EQ(all.best()[0].index, 4);
  EXPECT_EQ(all.best()[1].index, 1) << "of equal ones that with the lower index";
  EXPECT_EQ(all.best()[0].classes.pixels, (std::vector<std::uint8_t>{4, 0}));
  EXPECT_THROW(Gallery().merge(mine.bytes().substr(0, 20)), InternalError);
}

/// A picture and its mask.
class OnePicture final : public ImageSource {
 public:
  [[nodiscard]] std::int64_t size() const override { return 1; }
  [[nodiscard]] AnnotatedImage get(std::int64_t /*index*/) const override {
    AnnotatedImage picture;
    picture.pixels = grey(2, 1, 10);
    picture.maps.push_back({Image{{2, 1}, 1, {0, 1}}});
    picture.name = "one.png";
    return picture;
  }
};

TEST(SegmentationGallery, DrawsItsPages) {
  const test::TempDir folder;
  Gallery gallery;
  gallery.add(judged(0, 0.25));
  const auto files = draw_pictures(gallery, OnePicture(), folder.path());
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].filename(), "worst.png");
  const Image page = read_image(files[0], ColorMode::kRgb);
  EXPECT_GE(page.size.width, 3 * 256);
  const auto color = class_color(1);
  bool legend = false;
  for (std::size_t i = page.pixels.size() - static_cast<std::size_t>(3 * 12 * page.size.width); i < page.pixels.size();
       i += 3) {
    legend = legend || std::equal(color.begin(), color.end(), page.pixels.begin() + static_cast<std::ptrdiff_t>(i));
  }
  EXPECT_TRUE(legend) << "the colour of class 1 is explained below";
  EXPECT_TRUE(draw_pictures(Gallery(), OnePicture(), folder.path()).empty());
}

}  // namespace segmentation_overlay_test
}  // namespace lockstep::segmentation
