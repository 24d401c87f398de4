// SPDX-License-Identifier: Apache-2.0
// The worst and best images of an evaluation: the same ones on any number of ranks, with their marks.
#include "detection/data/pictures.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "lockstep/base/error.h"
#include "lockstep/data/draw_boxes.h"
#include "support/temp_dir.h"

namespace lockstep::detection {
namespace detection_pictures_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Evaluated {
  ImageTruth truth;
  std::vector<FoundObject> found;
  ImageResult result;
};

/// Image `id` with two objects; one is detected `off` pixels away, which lowers the overlap.
Evaluated image_with(std::int64_t id, double off) {
  Evaluated one;
  one.truth = {id, {{{10, 10, 20, 20}, 0, 400, false}, {{50, 10, 20, 20}, 1, 400, false}}};
  one.found = {{{10 + off, 10, 20, 20}, 0, 0.9}, {{50, 10, 20, 20}, 1, 0.8}, {{70, 70, 9, 9}, 1, 0.3}};
  one.result = evaluate_image(one.truth, one.found);
  return one;
}

void add(Gallery& gallery, const Evaluated& one) { gallery.add(one.truth.id * 10, one.truth, one.found, one.result); }

std::vector<std::int64_t> ids(const std::vector<JudgedImage>& images) {
  std::vector<std::int64_t> all;
  for (const JudgedImage& image : images) all.push_back(image.truth.id);
  return all;
}

TEST(Gallery, KeepsTheWorstAndTheBest) {
  Gallery gallery(3);
  for (const std::int64_t id : {4, 2, 7, 1, 6, 3, 5}) add(gallery, image_with(id, static_cast<double>(id)));
  EXPECT_THAT(ids(gallery.worst()), ElementsAre(7, 6, 5));
  EXPECT_THAT(ids(gallery.best()), ElementsAre(1, 2, 3));
  EXPECT_EQ(gallery.best()[0].index, 10);
  EXPECT_EQ(gallery.best()[0].found.size(), 2U) << "the confident ones";
  EXPECT_GT(gallery.best()[0].quality, gallery.worst()[0].quality);
}

TEST(Gallery, EmptyImagesAreOnlyWorthALookWhereSomethingWasFoundInThem) {
  Gallery gallery(2);
  const ImageTruth nothing{1, {}};
  gallery.add(0, nothing, {}, evaluate_image(nothing, {}));
  add(gallery, image_with(2, 3));
  EXPECT_THAT(ids(gallery.best()), ElementsAre(2));
  const std::vector<FoundObject> ghost{{{1, 1, 5, 5}, 0, 0.9}};
  const ImageTruth haunted{3, {}};
  gallery.add(0, haunted, ghost, evaluate_image(haunted, ghost));
  EXPECT_THAT(ids(gallery.worst()), ElementsAre(3, 2));
}

TEST(Gallery, RanksPutTheirsTogetherInAnyOrder) {
  Gallery whole(4);
  std::vector<Gallery> parts(3, Gallery(4));
  for (std::int64_t id = 0; id < 30; ++id) {
    const Evaluated one = image_with(id, static_cast<double>((id * 7) % 10));  // many have equal quality
    add(whole, one);
    add(parts[static_cast<std::size_t>(id % 3)], one);
    if (id % 5 == 0) add(parts[static_cast<std::size_t>((id + 1) % 3)], one);  // as padding, this image is on two ranks
  }
  for (const std::vector<std::size_t>& order : {std::vector<std::size_t>{0, 1, 2}, std::vector<std::size_t>{2, 0, 1}}) {
    Gallery merged(4);
    for (const std::size_t i : order) merged.merge(parts[i].bytes());
    EXPECT_EQ(merged.bytes(), whole.bytes());
  }
  const std::string bytes = whole.bytes();
  EXPECT_THROW(Gallery().merge(std::string_view(bytes).substr(1)), InternalError);
}

/// The same gray image for every index.
class GraySource final : public ImageSource {
 public:
  [[nodiscard]] std::int64_t size() const override { return 100; }
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override {
    AnnotatedImage picture;
    picture.pixels = Image{{100, 80}, 3, std::vector<std::uint8_t>(100 * 80 * 3, 100)};
    picture.name = "folder/picture " + std::to_string(index) + ".png";
    return picture;
  }
};

using Ink = std::array<std::uint8_t, 3>;

Ink pixel(const Image& image, std::int64_t x, std::int64_t y) {
  const std::uint8_t* at = image.pixels.data() + (y * image.size.width + x) * 3;
  return {at[0], at[1], at[2]};
}

TEST(DrawResult, TellsFoundMissedFalseAndCrowdApart) {
  JudgedImage judged;
  judged.truth = {
      1, {{{10, 40, 20, 20}, 0, 400, false}, {{60, 40, 20, 20}, 1, 400, false}, {{0, 0, 40, 20}, 2, 800, true}}};
  judged.found = {{{14, 40, 20, 20}, 0, 0.9}, {{40, 65, 15, 10}, 3, 0.8}, {{5, 5, 8, 8}, 2, 0.7}};
  const Image drawn = draw_result(GraySource().get(0), judged, {.side = 200});
  EXPECT_EQ(drawn.size, (ImageSize{200, 160}));
  EXPECT_EQ(pixel(drawn, 20, 100), (Ink{255, 255, 255})) << "left edge of the found object";
  EXPECT_EQ(pixel(drawn, 28, 100), mark_ink(0)) << "and of its detection";
  EXPECT_EQ(pixel(drawn, 120, 82), (Ink{255, 40, 40})) << "the missed one";
  EXPECT_EQ(pixel(drawn, 122, 82), (Ink{255, 40, 40})) << "which is thick";
  EXPECT_EQ(pixel(drawn, 120, 100), (Ink{100, 100, 100})) << "and has corners only, unlike any answer";
  std::set<Ink> bottom;
  for (std::int64_t x = 84; x < 106; ++x) bottom.insert(pixel(drawn, x, 149));
  EXPECT_THAT(bottom, ElementsAre(Ink{100, 100, 100}, mark_ink(3))) << "the false one is dashed";
  std::set<Ink> hit;
  for (std::int64_t x = 30; x < 66; ++x) hit.insert(pixel(drawn, x, 119));
  EXPECT_FALSE(hit.contains(Ink{100, 100, 100})) << "the right one is not";
  std::set<Ink> on_crowd;
  for (std::int64_t x = 12; x < 24; ++x) on_crowd.insert(pixel(drawn, x, 25));
  EXPECT_THAT(on_crowd, ElementsAre(mark_ink(2))) << "on a crowd nothing is false";
}

/// One object at (10, 10) and a model's detections.
JudgedImage judged_by(const std::vector<FoundObject>& found) {
  const ImageTruth truth{1, {{{10, 10, 20, 20}, 0, 400, false}}};
  Gallery gallery;
  gallery.add(0, truth, found, evaluate_image(truth, found));
  return gallery.worst().at(0);
}

TEST(Gallery, KeepsTheBestGuessAtEachMissedObject) {
  const FoundObject near{{11, 10, 20, 20}, 0, 0.3};
  const FoundObject nearer{{10, 10, 20, 20}, 0, 0.2};
  const FoundObject of_another_class{{10, 10, 20, 20}, 1, 0.4};
  const FoundObject elsewhere{{60, 60, 9, 9}, 0, 0.45};
  EXPECT_EQ(judged_by({elsewhere, of_another_class, near, nearer}).guesses.at(0).score, 0.3);
  EXPECT_EQ(judged_by({elsewhere, of_another_class}).guesses.at(0).label, 1);
  EXPECT_EQ(judged_by({elsewhere}).guesses.at(0).score, 0.45) << "there is no answer at all";
  EXPECT_THAT(judged_by({elsewhere, {{80, 60, 9, 9}, 0, 0.9}}).guesses, IsEmpty());
  EXPECT_THAT(judged_by({near, {{10, 10, 20, 20}, 0, 0.8}}).guesses, IsEmpty()) << "it was found";
  EXPECT_THAT(judged_by({}).guesses, IsEmpty());
  Gallery merged;
  const ImageTruth truth{1, {{{10, 10, 20, 20}, 0, 400, false}}};
  Gallery one;
  one.add(0, truth, {near}, evaluate_image(truth, {near}));
  merged.merge(one.bytes());
  EXPECT_EQ(merged.worst().at(0).guesses.at(0).box.x, 11);
}

TEST(DrawResult, AGuessIsAThinLineAndAMissedObjectHasAPlate) {
  JudgedImage judged;
  judged.truth = {1, {{{20, 30, 40, 40}, 0, 1600, false}}};
  judged.guesses = {{{24, 30, 40, 40}, 0, 0.3}};
  const Image drawn = draw_result(GraySource().get(0), judged, {.side = 200, .class_names = {"raccoon"}});
  EXPECT_EQ(pixel(drawn, 48, 100), mark_ink(0));
  EXPECT_EQ(pixel(drawn, 49, 100), (Ink{100, 100, 100})) << "one pixel thick";
  std::int64_t red = 0;
  for (std::int64_t x = 40; x < 100; ++x) red += pixel(drawn, x, 48) == Ink{255, 40, 40} ? 1 : 0;
  EXPECT_GT(red, 30) << "the words 'missed: raccoon' stand on red, an answer's on black";
}

TEST(DrawResult, FramesEndAtThePicturesEdge) {
  JudgedImage judged;
  judged.truth = {1, {}};
  judged.found = {{{-20, -20, 200, 200}, 0, 0.9}};
  const Image drawn = draw_result(GraySource().get(0), judged, {.side = 200});
  EXPECT_EQ(pixel(drawn, 0, 98), mark_ink(0)) << "on a dash: it is a false one";
  EXPECT_EQ(pixel(drawn, 199, 98), mark_ink(0));
  EXPECT_EQ(pixel(drawn, 98, 159), mark_ink(0));
}

TEST(DrawResults, WritesASheetOfEach) {
  const test::TempDir folder;
  EXPECT_THAT(draw_results(Gallery(), GraySource(), folder.path()), IsEmpty());
  Gallery gallery(4);
  for (std::int64_t id = 0; id < 6; ++id) add(gallery, image_with(id, static_cast<double>(id)));
  const auto files = draw_results(gallery, GraySource(), folder.path(), {.side = 100, .class_names = {"cat", "dog"}});
  ASSERT_THAT(files, ElementsAre(folder / "worst.png", folder / "best.png"));
  for (const auto& file : files) {
    const Image sheet = read_image(file, ColorMode::kRgb);
    EXPECT_GE(sheet.size.width, 200);
    EXPECT_GE(sheet.size.height, 160);
    std::int64_t red = 0;
    for (std::int64_t y = sheet.size.height - 60; y < sheet.size.height; ++y) {
      for (std::int64_t x = 0; x < sheet.size.width; ++x) red += pixel(sheet, x, y) == Ink{255, 40, 40} ? 1 : 0;
    }
    EXPECT_GT(red, 20) << "a legend below shows how a missed object looks";
  }
}

}  // namespace detection_pictures_test
}  // namespace lockstep::detection
