// SPDX-License-Identifier: Apache-2.0
// What a person is shown of a set: the grid with marks, and the counts.
#include "lockstep/data/contact_sheet.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "data/draw/canvas.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/draw_boxes.h"
#include "lockstep/data/survey.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace contact_sheet_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

EncodedImage golden(const std::string& name) {
  const auto path = std::filesystem::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden" / name;
  auto bytes = std::make_shared<std::string>(FileSystem::system().read(path));
  return {.owner = bytes, .bytes = *bytes, .name = name};
}

data::Ink pixel(const Image& image, std::int64_t x, std::int64_t y) {
  const auto at = static_cast<std::size_t>((y * image.size.width + x) * 3);
  return {image.pixels[at], image.pixels[at + 1], image.pixels[at + 2]};
}

AnnotatedImage gray(std::int64_t label) {
  AnnotatedImage image{.pixels = Image{{20, 10}, 1, std::vector<std::uint8_t>(200, 100)}};
  image.label = label;
  return image;
}

TEST(ContactSheet, LaysPicturesInAGridWithTheirMarks) {
  AnnotatedImage marked = gray(0);
  marked.objects = {{.box = {5, 2, 15, 8}, .label = 1}};
  const Image sheet = contact_sheet({gray(0), marked, gray(1)}, {.columns = 2, .cell = 40});
  EXPECT_EQ(sheet.size.width, 2 * 46 + 6);
  EXPECT_EQ(sheet.size.height, 2 * (20 + 18 + 6) + 6 + (data::Pen(12).width("1") > 0 ? 6 + 18 : 0)) << "and a legend";
  EXPECT_EQ(pixel(sheet, 6, 6), (data::Ink{100, 100, 100}));
  EXPECT_EQ(pixel(sheet, 5, 6), pixel(sheet, 0, 0));
  EXPECT_EQ(pixel(sheet, 52 + 10, 6 + 4), data::ink_of(1));   // the box's corner, twice as large
  EXPECT_EQ(pixel(sheet, 52 + 29, 6 + 15), data::ink_of(1));  // and the opposite one
  EXPECT_EQ(pixel(sheet, 52 + 20, 6 + 10), (data::Ink{100, 100, 100}));
}

TEST(ContactSheet, TintsMasksAndMaps) {
  AnnotatedImage image = gray(0);
  image.maps = {{Image{{20, 10}, 1, std::vector<std::uint8_t>(200, 0)}}};
  image.maps[0].image.pixels[0] = 3;
  image.maps[0].image.pixels[1] = 255;
  const Image sheet = contact_sheet({image}, {.cell = 20});
  EXPECT_NE(pixel(sheet, 6, 6), (data::Ink{100, 100, 100}));
  EXPECT_EQ(pixel(sheet, 7, 6), (data::Ink{100, 100, 100}));
}

TEST(ContactSheet, WritesClassNamesWhereThereIsAFont) {
  const data::Pen pen(12);
  if (pen.width("RBC") == 0) GTEST_SKIP() << "fonts-dejavu-core is not installed";
  EXPECT_GT(pen.width("RBC WBC"), pen.width("RBC"));
  const Image named = contact_sheet({gray(1)}, {.class_names = {"WBC", "RBC"}});
  const Image other = contact_sheet({gray(0)}, {.class_names = {"WBC", "RBC"}});
  EXPECT_NE(named.pixels, other.pixels);
}

/// Words on a picture cover what a person wants to see.
TEST(ContactSheet, NamesClassesInALegendAndNotOnThePicture) {
  if (data::Pen(12).width("RBC") == 0) GTEST_SKIP() << "fonts-dejavu-core is not installed";
  AnnotatedImage marked = gray(0);
  marked.label.reset();
  marked.objects = {{.box = {0, 0, 20, 10}, .label = 1}};
  const Image sheet = contact_sheet({marked}, {.cell = 200, .class_names = {"WBC", "RBC"}});
  for (std::int64_t y = 7; y < 105; ++y) {
    for (std::int64_t x = 7; x < 205; ++x) ASSERT_EQ(pixel(sheet, x, y), (data::Ink{100, 100, 100})) << x << ", " << y;
  }
  bool swatch = false;
  for (std::int64_t y = 106 + 18 + 6; y < sheet.size.height; ++y) {
    for (std::int64_t x = 6; x < 16; ++x) swatch = swatch || pixel(sheet, x, y) == data::ink_of(1);
  }
  EXPECT_TRUE(swatch) << "the colour of its frame is explained";
  const Image other = contact_sheet({marked}, {.cell = 200, .class_names = {"WBC", "Platelets"}});
  EXPECT_NE(sheet.pixels, other.pixels);
}

TEST(DrawBoxes, WordsOfOneBoxLeaveThoseOfAnotherToBeRead) {
  if (data::Pen(11).width("x") == 0) GTEST_SKIP() << "fonts-dejavu-core is not installed";
  const Image picture{{100, 100}, 1, std::vector<std::uint8_t>(10'000, 100)};
  const BoxMark one{.box = {30, 30, 70, 70}, .ink = {1, 200, 2}, .text = "one", .plate = true};
  BoxMark other = one;
  other.ink = {200, 1, 2};
  const Image drawn = draw_boxes(view_of(picture), picture.size, {one, other});
  EXPECT_EQ(pixel(drawn, 31, 18), (data::Ink{200, 1, 2})) << "above: the last one is drawn over the others";
  EXPECT_EQ(pixel(drawn, 31, 71), (data::Ink{1, 200, 2})) << "below";
}

TEST(ContactSheet, AFrameEndsAtItsPicturesEdge) {
  AnnotatedImage marked = gray(0);
  marked.objects = {{.box = {-9, -9, 90, 90}, .label = 1, .points = {{50, 5}}}};
  const Image sheet = contact_sheet({marked, gray(0)}, {.columns = 2, .cell = 40});
  EXPECT_EQ(pixel(sheet, 6, 6), data::ink_of(1));
  EXPECT_EQ(pixel(sheet, 45, 25), data::ink_of(1));
  for (std::int64_t y = 6; y < 26; ++y) {
    for (std::int64_t x = 46; x < 92; ++x) EXPECT_NE(pixel(sheet, x, y), data::ink_of(1)) << x << ", " << y;
  }
}

TEST(ContactSheet, ExplainsFramesInItsLegend) {
  if (data::Pen(12).width("x") == 0) GTEST_SKIP() << "fonts-dejavu-core is not installed";
  const data::Ink ink{1, 200, 2};
  const BoxMark missed{.ink = ink, .thick = 3, .corners = true, .text = "missed"};
  const Image plain = contact_sheet({gray(0)}, {.cell = 200});
  const Image sheet = contact_sheet({gray(0)}, {.cell = 200, .legend = {missed}});
  EXPECT_GT(sheet.size.height, plain.size.height);
  std::int64_t of_ink = 0;
  for (std::int64_t y = plain.size.height - 6; y < sheet.size.height; ++y) {
    for (std::int64_t x = 0; x < 40; ++x) of_ink += pixel(sheet, x, y) == ink ? 1 : 0;
  }
  EXPECT_EQ(of_ink, 4 * (3 * 6)) << "four corners of 6 x 3 pixels";
}

TEST(ContactSheet, IsWrittenAsAPngThatReadsBack) {
  const test::TempDir folder;
  const Image sheet = contact_sheet({gray(0)});
  write_png(sheet, folder.path() / "sheet.png");
  EXPECT_EQ(read_image(folder.path() / "sheet.png", ColorMode::kRgb).pixels, sheet.pixels);
  EXPECT_THROW((void)contact_sheet({}), UsageError);
}

class Masked final : public ImageSource {
 public:
  [[nodiscard]] std::int64_t size() const override { return 2; }
  [[nodiscard]] AnnotatedImage get(std::int64_t) const override {
    AnnotatedImage image = gray(0);
    image.maps = {{Image{{20, 10}, 1, std::vector<std::uint8_t>(200, 0)}}};
    image.maps[0].image.pixels[7] = 255;
    return image;
  }
};

TEST(Survey, CountsThePixelsOfMapsByTheirValue) {
  EXPECT_THAT(survey_source(Masked()).pixels, ElementsAre(Pair(0, 398), Pair(255, 2)));
}

class Mixed final : public ImageSource {
 public:
  [[nodiscard]] std::int64_t size() const override { return 5; }
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override {
    if (index == 0) return gray(2);
    AnnotatedImage image{.pixels = golden(index == 1 ? "rgba.png" : index == 2 ? "gray.jpg" : "part_420.jpg")};
    image.name = index == 4 ? "torn.jpg" : "whole.jpg";
    image.objects = {{.box = {1, 1, 5, 5}, .label = 1}, {.box = {3, 3, 3, 9}, .label = 0}};
    if (index == 4) image.pixels = EncodedImage{nullptr, std::string_view("\xff\xd8\xff\xe0 and no more"), "torn.jpg"};
    return image;
  }
};

TEST(Survey, CountsWhatCanBeReadAndSaysWhatCannot) {
  std::vector<std::int64_t> steps;
  const Survey survey = survey_source(Mixed(), [&](std::int64_t done) { steps.push_back(done); });
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(survey.pictures, 5);
  EXPECT_THAT(survey.sizes, ElementsAre(ImageSize{20, 10}, ImageSize{23, 17}, ImageSize{23, 17}, ImageSize{93, 75}));
  EXPECT_THAT(survey.formats, ElementsAre(Pair("JPEG", 2), Pair("PNG", 1), Pair("decoded", 1)));
  EXPECT_THAT(survey.channels, ElementsAre(Pair(1, 2), Pair(3, 1), Pair(4, 1)));
  EXPECT_THAT(survey.classes, ElementsAre(Pair(2, 1)));
  EXPECT_EQ(survey.unlabelled, 3);
  EXPECT_THAT(survey.objects, ElementsAre(Pair(0, 3), Pair(1, 3)));
  EXPECT_EQ(survey.empty_boxes, 3);
  ASSERT_EQ(survey.unreadable.size(), 1U);
  EXPECT_EQ(survey.unreadable[0].name, "torn.jpg");
  EXPECT_THAT(survey.unreadable[0].reason, AllOf(HasSubstr("torn.jpg"), Not(HasSubstr("\n"))));
}

}  // namespace contact_sheet_test
}  // namespace lockstep
