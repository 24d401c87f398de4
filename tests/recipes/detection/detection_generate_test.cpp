// SPDX-License-Identifier: Apache-2.0
// Synthetic scenes: the same bytes for the same seed, the promised numbers, sizes and overlaps, boxes that are tight,
// and refusals that name the cause.
#include "detection/synthetic/generate.h"

#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "detection/synthetic/scene.h"
#include "detection/synthetic/scene_paint.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/sources/open_source.h"
#include "support/temp_dir.h"

namespace lockstep::detection {
namespace detection_generate_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

using Files = std::map<std::string, std::string>;  // name to bytes

Files files_of(const fs::path& folder) {
  Files files;
  for (const auto& name : FileSystem::system().list(folder / "images")) {
    files[name] = FileSystem::system().read(folder / "images" / name);
  }
  files["annotations.json"] = FileSystem::system().read(folder / "annotations.json");
  return files;
}

Files generated(GenerateOptions options) {
  const test::TempDir folder;
  options.out = folder / "set";
  generate_scenes(options);
  return files_of(options.out);
}

std::string fault_of(const GenerateOptions& options) {
  try {
    generate_scenes(options);
  } catch (const UsageError& fault) {
    return fault.what();
  }
  return "no UsageError";
}

std::vector<Scene> scenes(std::int64_t count, std::int64_t side, SceneObjects objects = SceneObjects::kMany) {
  std::vector<Scene> all;
  for (std::int64_t i = 0; i < count; ++i) {
    SampleRandom random(1, 0, static_cast<std::uint64_t>(i));
    all.push_back(make_scene(side, side, objects, random));
  }
  return all;
}

TEST(GenerateScenes, GivesTheSameBytesOnAnyNumberOfThreads) {
  const Files one = generated({.count = 12, .seed = 7, .size = {128, 192}, .threads = 1});
  EXPECT_EQ(one.size(), 13U);
  EXPECT_EQ(generated({.count = 12, .seed = 7, .size = {128, 192}, .threads = 4}), one);
}

TEST(GenerateScenes, GivesOtherPicturesForAnotherSeed) {
  const Files first = generated({.count = 6, .seed = 7});
  for (const auto& [name, bytes] : generated({.count = 6, .seed = 8})) EXPECT_NE(first.at(name), bytes) << name;
}

TEST(GenerateScenes, ALongerSetBeginsWithTheShorterOne) {
  const Files longer = generated({.count = 8, .seed = 3});
  for (const auto& [name, bytes] : generated({.count = 4, .seed = 3})) {
    if (name != "annotations.json") {
      EXPECT_EQ(longer.at(name), bytes) << name;
    }
  }
}

TEST(GenerateScenes, WritesASetThatOpenSourceReads) {
  const test::TempDir folder;
  generate_scenes({.out = folder / "set", .count = 20, .seed = 5, .size = {128, 192}});
  const auto source = open_source({.path = (folder / "set").string()});
  ASSERT_EQ(source->size(), 20);
  EXPECT_EQ(source->class_names(), std::vector<std::string>(kShapeNames.begin(), kShapeNames.end()));
  std::set<std::pair<std::int64_t, std::int64_t>> sizes;
  for (std::int64_t i = 0; i < source->size(); ++i) {
    SampleRandom random(5, 0, static_cast<std::uint64_t>(i));
    const std::int64_t width = random.between(128, 192);
    const std::int64_t height = random.between(128, 192);
    const Scene scene = make_scene(width, height, SceneObjects::kMany, random);
    AnnotatedImage picture = source->get(i);
    EXPECT_EQ(picture.id, i + 1);
    EXPECT_EQ(picture.pixels.decoded().pixels, scene.pixels);
    ASSERT_EQ(picture.objects.size(), scene.objects.size());
    for (std::size_t k = 0; k < scene.objects.size(); ++k) {
      const Object& read = picture.objects[k];
      const SceneObject& truth = scene.objects[k];
      EXPECT_EQ(read.label, static_cast<std::int64_t>(truth.kind));
      EXPECT_EQ(read.crowd, truth.crowd);
      EXPECT_NEAR(read.box.x1, truth.box.x1, 0.011);
      EXPECT_NEAR(read.box.y2, truth.box.y2, 0.021);
      EXPECT_NEAR(read.area, truth.area, 0.051);
    }
    sizes.insert({width, height});
  }
  EXPECT_GE(sizes.size(), 15U) << "sizes vary";
}

TEST(GenerateScenes, NamesAnOptionThatIsOutOfRange) {
  const test::TempDir folder;
  const fs::path out = folder / "set";
  EXPECT_THAT(fault_of({.out = out, .count = 0}), HasSubstr("count is 0"));
  EXPECT_THAT(fault_of({.out = out, .count = 1, .size = {32, 64}}), HasSubstr("size is 32"));
  EXPECT_THAT(fault_of({.out = out, .count = 1, .size = {128, 64}}), HasSubstr("size is 64"));
  EXPECT_FALSE(fs::exists(out));
}

TEST(GenerateScenes, RefusesAFolderThatHoldsASet) {
  const test::TempDir folder;
  std::ofstream(folder / "annotations.json") << "{}";
  EXPECT_THAT(fault_of({.out = folder.path(), .count = 2}),
              AllOf(HasSubstr(folder.path().string()), HasSubstr("annotations.json")));
  EXPECT_FALSE(fs::exists(folder / "images"));
}

TEST(GenerateScenes, LeavesNoAnnotationsWhereAPictureCannotBeWritten) {
  const test::TempDir folder;
  fs::create_directories(folder / "set");
  const auto full = [&](std::int64_t) { throw IoError("the disk is full"); };
  EXPECT_THROW(generate_scenes({.out = folder / "set", .count = 200, .seed = 1, .size = {64, 64}, .threads = 2}, full),
               IoError);
  EXPECT_FALSE(fs::exists(folder / "set" / "annotations.json"));
}

TEST(ParseSides, TakesOneSideOrARange) {
  EXPECT_EQ(parse_sides("160").least, 160);
  EXPECT_EQ(parse_sides("160").most, 160);
  EXPECT_EQ(parse_sides("128-192").least, 128);
  EXPECT_EQ(parse_sides("128-192").most, 192);
  for (const char* wrong : {"", "a", "12", "-160", "160-", "192-128", "128-192-256", "160 "}) {
    EXPECT_THROW((void)parse_sides(wrong), UsageError) << wrong;
  }
}

TEST(MakeScene, HoldsFiveToThirtyObjectsAndLeavesOneInTenEmpty) {
  std::int64_t empty = 0;
  std::int64_t crowds = 0;
  const auto all = scenes(250, 96);
  for (const Scene& scene : all) {
    empty += scene.objects.empty() ? 1 : 0;
    crowds += std::ranges::count_if(scene.objects, [](const SceneObject& one) { return one.crowd; });
    if (scene.objects.empty()) continue;
    EXPECT_GE(scene.objects.size(), 5U);
    EXPECT_LE(scene.objects.size(), 30U);
  }
  EXPECT_NEAR(static_cast<double>(empty), 25, 14);
  EXPECT_NEAR(static_cast<double>(crowds), 37, 17);
}

TEST(MakeScene, ObjectsCoverATenthOfAPercentToTwentyPercent) {
  for (const std::int64_t side : {96, 160}) {
    const auto pixels = static_cast<double>(side * side);
    double least = 1;
    double most = 0;
    for (const Scene& scene : scenes(60, side)) {
      for (const SceneObject& object : scene.objects) {
        if (object.crowd) continue;
        least = std::min(least, object.area / pixels);
        most = std::max(most, object.area / pixels);
        EXPECT_GE(object.area, 25) << "pixels, to be told apart";
      }
    }
    EXPECT_GE(least, 0.00098);
    EXPECT_LE(most, 0.201);
    EXPECT_LE(least, 30 / pixels);
    EXPECT_GE(most, 0.1);
  }
}

TEST(MakeScene, AboutThreeInTenObjectsAreCoveredAndAtLeastHalfVisible) {
  double objects = 0;
  double covered = 0;
  for (const Scene& scene : scenes(100, 160)) {
    for (const SceneObject& object : scene.objects) {
      if (object.crowd) continue;
      ++objects;
      covered += object.visible < 1 ? 1 : 0;
      EXPECT_GE(object.visible, 0.5);
    }
  }
  EXPECT_NEAR(covered / objects, 0.3, 0.06);
}

TEST(MakeScene, BoxesLieInThePictureAndKindsAreEquallyLikely) {
  std::map<ShapeKind, double> kinds;
  double objects = 0;
  for (const Scene& scene : scenes(100, 128)) {
    for (const SceneObject& object : scene.objects) {
      EXPECT_GE(object.box.x1, 0);
      EXPECT_GE(object.box.y1, 0);
      EXPECT_LE(object.box.x2, 128);
      EXPECT_LE(object.box.y2, 128);
      ++kinds[object.kind];
      ++objects;
    }
  }
  ASSERT_EQ(kinds.size(), 8U);
  for (const auto& [kind, count] : kinds) EXPECT_NEAR(count / objects, 1.0 / 8, 0.03);
}

TEST(Outline, HasTheWantedAreaAndATightBox) {
  SampleRandom random(4);
  for (int i = 0; i < 32; ++i) {
    const Shape shape{.kind = static_cast<ShapeKind>(i % 8),
                      .x = 40 + random.uniform(),
                      .y = 40 + random.uniform(),
                      .area = random.uniform(26, 900),
                      .degrees = random.uniform(0, 360),
                      .stretch = random.uniform(0.8, 1.25)};
    const Outline outline(shape);
    // A fine grid tells what the polygon's arithmetic should.
    constexpr double kStep = 0.2;
    double area = 0;
    Extent seen{1e9, 1e9, -1e9, -1e9};
    for (double y = 0; y < 80; y += kStep) {
      for (double x = 0; x < 80; x += kStep) {
        if (outline.distance(x, y) > 0) continue;
        area += kStep * kStep;
        seen = {std::min(seen.x1, x), std::min(seen.y1, y), std::max(seen.x2, x), std::max(seen.y2, y)};
      }
    }
    EXPECT_NEAR(area, shape.area, 0.02 * shape.area + 0.5) << kShapeNames[static_cast<std::size_t>(i % 8)];
    const Extent& box = outline.extent();
    for (const auto& [edge, pixel] : {std::pair{box.x1, seen.x1}, std::pair{box.y1, seen.y1}}) {
      EXPECT_GE(pixel, edge - 1e-9);
      EXPECT_LE(pixel, edge + 1.0);
    }
    for (const auto& [edge, pixel] : {std::pair{box.x2, seen.x2}, std::pair{box.y2, seen.y2}}) {
      EXPECT_LE(pixel, edge + 1e-9);
      EXPECT_GE(pixel, edge - 1.0);
    }
  }
}

TEST(FewScenes, AreLargeApartAndOfThreeKinds) {
  std::set<ShapeKind> kinds;
  for (const Scene& scene : scenes(200, 64, SceneObjects::kFew)) {
    EXPECT_THAT(scene.objects.size(), AllOf(::testing::Ge(1U), ::testing::Le(3U)));
    for (const SceneObject& object : scene.objects) {
      kinds.insert(object.kind);
      EXPECT_FALSE(object.crowd);
      EXPECT_EQ(object.visible, 1);
    }
  }
  EXPECT_EQ(kinds, (std::set{ShapeKind::kCircle, ShapeKind::kTriangle, ShapeKind::kCross}));
  EXPECT_EQ(kinds.size(), kinds_in(SceneObjects::kFew).size());
}

TEST(FewScenes, HaveThreeCategoriesInTheirFile) {
  const Files files = generated({.count = 4, .seed = 7, .size = {64, 64}, .objects = SceneObjects::kFew});
  EXPECT_THAT(files.at("annotations.json"),
              AllOf(HasSubstr("\"name\": \"cross\""), Not(HasSubstr("\"name\": \"star\""))));
}

TEST(FewScenes, SayWhichObjectsThereAre) {
  EXPECT_EQ(parse_scene_objects("few"), SceneObjects::kFew);
  EXPECT_THROW((void)parse_scene_objects("fev"), UsageError);
}

TEST(ScenePixels, PaintsWhatCoveredAreaSays) {
  const Outline star(Shape{.kind = ShapeKind::kStar, .x = 32, .y = 32, .area = 400, .degrees = 12});
  for (const Paint& paint :
       {Paint{.fill = {255, 255, 255}}, Paint{.fill = {255, 255, 255}, .edge_width = 2, .hollow = true}}) {
    ScenePixels canvas(64, 64);
    canvas.paint(star, paint);
    double sum = 0;
    for (const std::uint8_t value : canvas.rounded()) sum += value / 255.0 / 3;
    EXPECT_NEAR(sum, covered_area(star, paint), 1);
  }
  EXPECT_NEAR(covered_area(star, {}), 400, 8);
}

}  // namespace detection_generate_test
}  // namespace lockstep::detection
