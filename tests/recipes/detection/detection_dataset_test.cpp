// SPDX-License-Identifier: Apache-2.0
// Images with boxes, synthetic and from files.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "detection/data/dataset.h"
#include "detection/data/dataset_augment.h"
#include "detection/synthetic/generate.h"
#include "detection/synthetic/scene.h"
#include "detection/synthetic/scene_paint.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/text.h"
#include "lockstep/data/augment/turn.h"
#include "lockstep/data/contact_sheet.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/sources/open_source.h"
#include "support/data_folder.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep::detection {
namespace detection_dataset_test {

using test::fault_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Images with boxes: each epoch's operations, one size per batch on all ranks, objects that training leaves out and
// evaluation keeps.

/// A generated dataset for all tests in this file.
class Scenes : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<test::TempDir>();
    generate_scenes({.out = *folder_ / "set", .count = 24, .seed = 3, .size = {96, 128}});
  }
  static void TearDownTestSuite() { folder_.reset(); }
  static DatasetOptions options() { return {.source = {.path = (*folder_ / "set").string()}, .side = 96}; }

  static std::unique_ptr<test::TempDir> folder_;
};
std::unique_ptr<test::TempDir> Scenes::folder_;

AnnotatedImage taken(const DetectionSet& set, std::int64_t index, std::int64_t epoch) {
  SampleContext context(1, epoch, index);
  return *std::any_cast<Unsized>(set.dataset->get(index, context).extra);
}

/// Makes every operation of an epoch certain to be applied.
AugmentOptions certain() {
  return {.policy = {1, 2, 3},
          .mosaic_prob = 1,
          .mixup_prob = 1,
          .photometric_prob = 1,
          .zoom_out_prob = 1,
          .iou_crop_prob = 0,
          .flip_prob = 0,
          .mosaic_side = 48,
          .base_size = 96};
}

TEST_F(Scenes, StrongOperationsRunBetweenTheFirstAndTheLastEpochOfThePolicy) {
  const DetectionSet set = open_training_set(options(), certain());
  for (std::int64_t i = 0; i < 8; ++i) {
    AnnotatedImage plain = set.source->get(i);
    const Image before = plain.pixels.decoded();
    for (const std::int64_t epoch : {0, 3, 4, 1000}) {
      AnnotatedImage seen = taken(set, i, epoch);
      EXPECT_EQ(seen.pixels.decoded().pixels, before.pixels) << "epoch " << epoch;
      EXPECT_EQ(seen.objects.size(), plain.objects.size());
    }
    AnnotatedImage zoomed = taken(set, i, 2);
    EXPECT_GT(zoomed.pixels.size().width, before.size.width) << "zoomed out, no mosaic";
    EXPECT_EQ(zoomed.objects.size(), plain.objects.size()) << "no other picture in it";
  }
}

TEST_F(Scenes, MosaicReplacesZoomAndCropBeforeTheSecondEpochOfThePolicy) {
  AugmentOptions augment = certain();
  augment.mixup_prob = 0;
  const DetectionSet set = open_training_set(options(), augment);
  std::int64_t more = 0;
  for (std::int64_t i = 0; i < set.dataset->size(); ++i) {
    AnnotatedImage mosaic = taken(set, i, 1);
    const ImageSize size = mosaic.pixels.size();
    EXPECT_GE(size.width, 96);
    EXPECT_LE(size.width, 2 * 48 * 128 / 96) << "four quarters of 48 pixels, and no wide canvas";
    more += mosaic.objects.size() > set.source->get(i).objects.size() ? 1 : 0;
  }
  EXPECT_GE(more, set.dataset->size() / 2);
}

TEST_F(Scenes, MixUpAddsTheObjectsOfAnotherPicture) {
  AugmentOptions augment = certain();
  augment.mosaic_prob = augment.photometric_prob = augment.zoom_out_prob = 0;
  const DetectionSet set = open_training_set(options(), augment);
  std::int64_t more = 0;
  for (std::int64_t i = 0; i < set.dataset->size(); ++i) {
    more += taken(set, i, 1).objects.size() > set.source->get(i).objects.size() ? 1 : 0;
    EXPECT_EQ(taken(set, i, 2).objects.size(), set.source->get(i).objects.size()) << "not in the second part";
  }
  EXPECT_GE(more, set.dataset->size() / 2);
}

TEST_F(Scenes, FlipsInEveryEpochWithTheirBoxes) {
  AugmentOptions augment = certain();
  augment.flip_prob = 1;
  const DetectionSet set = open_training_set(options(), augment);
  for (const std::int64_t epoch : {0, 3}) {
    AnnotatedImage expected = set.source->get(1);
    HorizontalFlip::apply(expected);
    AnnotatedImage seen = taken(set, 1, epoch);
    EXPECT_EQ(seen.pixels.decoded().pixels, expected.pixels.decoded().pixels);
    ASSERT_EQ(seen.objects.size(), expected.objects.size());
    for (std::size_t k = 0; k < seen.objects.size(); ++k) EXPECT_EQ(seen.objects[k].box, expected.objects[k].box);
  }
}

TEST_F(Scenes, TrainingDropsCrowdsAndEvaluationKeepsThem) {
  ::testing::internal::CaptureStderr();
  const DetectionSet training = open_training_set(options(), certain());
  const std::string note = ::testing::internal::GetCapturedStderr();
  const DetectionSet test = open_test_set(options());
  std::int64_t crowds = 0;
  for (std::int64_t i = 0; i < test.dataset->size(); ++i) {
    SampleContext context(0, 0, i);
    const Sample sample = test.dataset->get(i, context);
    EXPECT_THAT(sample.data.sizes(), ElementsAre(3, 96, 96));
    const auto& truth = std::any_cast<const Detections&>(sample.extra);
    const AnnotatedImage original = test.source->get(i);
    EXPECT_EQ(truth.size, original.pixels.size());
    EXPECT_EQ(truth.id, i + 1);
    ASSERT_EQ(truth.boxes.size(0), std::ssize(original.objects));
    for (std::int64_t k = 0; k < truth.boxes.size(0); ++k) {
      const Object& object = original.objects[static_cast<std::size_t>(k)];
      const float* box = truth.boxes.data_ptr<float>() + 4 * k;
      EXPECT_NEAR((box[0] - box[2] / 2) * static_cast<float>(truth.size.width), object.box.x1, 1e-3);
      EXPECT_NEAR((box[1] + box[3] / 2) * static_cast<float>(truth.size.height), object.box.y2, 1e-3);
      EXPECT_EQ(truth.areas.data_ptr<float>()[k], object.area) << "in pixels of the original";
      EXPECT_EQ(truth.crowd.data_ptr<bool>()[k], object.crowd);
      crowds += object.crowd ? 1 : 0;
    }
    const AnnotatedImage seen = training.source->get(i);
    EXPECT_TRUE(std::ranges::none_of(seen.objects, [](const Object& one) { return one.crowd; }));
  }
  ASSERT_GT(crowds, 0) << "the seed gives none";
  EXPECT_EQ(training.dropped, crowds);
  EXPECT_THAT(note,
              HasSubstr("0 boxes without area in the image and " + text::counted(crowds, "crowd") + " are excluded"));
}

TEST_F(Scenes, ABatchIsTheSameWithAnyNumberOfWorkers) {
  AugmentOptions augment = certain();
  augment.base_size_repeat = 1;
  augment.divisor = 16;
  const auto batches = [&](std::int64_t workers) {
    const DetectionSet set = open_training_set(options(), augment);
    DataLoader loader(
        set.dataset, {.batch_size = 5, .workers = workers, .shuffle = true, .seed = 4, .collate = collate_of(augment)});
    std::vector<Batch> all;
    for (const std::int64_t epoch : {1, 2}) {
      for (Batch& batch : loader.epoch(epoch)) all.push_back(std::move(batch));
    }
    return all;
  };
  const auto alone = batches(0);
  const auto helped = batches(3);
  ASSERT_EQ(alone.size(), 10U);
  ASSERT_EQ(helped.size(), alone.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_TRUE(at::equal(alone[i].data, helped[i].data)) << "batch " << i;
    const auto& a = std::any_cast<const Targets&>(alone[i].extra);
    const auto& b = std::any_cast<const Targets&>(helped[i].extra);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t k = 0; k < a.size(); ++k) EXPECT_TRUE(at::equal(a[k].boxes, b[k].boxes));
  }
}

TEST_F(Scenes, AllShardsOfAStepHaveOneSize) {
  AugmentOptions augment = certain();
  augment.base_size_repeat = 2;
  augment.divisor = 16;
  const DetectionSet set = open_training_set(options(), augment);
  std::vector<std::vector<std::int64_t>> sides;
  for (const std::int64_t shard : {0, 1, 2}) {
    DataLoader loader(set.dataset, {.batch_size = 2, .seed = 9, .shard = {shard, 3}, .collate = collate_of(augment)});
    sides.emplace_back();
    for (const std::int64_t epoch : {0, 1, 2, 3, 4}) {
      for (const Batch& batch : loader.epoch(epoch)) {
        EXPECT_EQ(batch.data.size(2), batch.data.size(3));
        if (epoch >= 3) {
          EXPECT_EQ(batch.data.size(3), 96) << "the last stage has one size";
        }
        sides.back().push_back(batch.data.size(3));
      }
    }
  }
  EXPECT_EQ(sides[1], sides[0]);
  EXPECT_EQ(sides[2], sides[0]);
  EXPECT_GE(std::set<std::int64_t>(sides[0].begin(), sides[0].end()).size(), 3U);
}

TEST_F(Scenes, BoxesOfABatchAreCentredAndLieInThePicture) {
  AugmentOptions augment = certain();
  augment.flip_prob = 0.5;
  augment.min_box = 3;
  const DetectionSet set = open_training_set(options(), augment);
  DataLoader loader(set.dataset, {.batch_size = 8, .seed = 2, .collate = collate_of(augment)});
  std::int64_t boxes = 0;
  for (const std::int64_t epoch : {0, 1, 2, 3}) {
    for (const Batch& batch : loader.epoch(epoch)) {
      EXPECT_GE(batch.data.min().item<float>(), 0.0F);
      EXPECT_LE(batch.data.max().item<float>(), 1.0F);
      EXPECT_GT(batch.data.max().item<float>(), 0.2F);
      for (const Detections& target : std::any_cast<const Targets&>(batch.extra)) {
        EXPECT_EQ(target.labels.size(0), target.boxes.size(0));
        for (std::int64_t k = 0; k < target.boxes.size(0); ++k, ++boxes) {
          const float* box = target.boxes.data_ptr<float>() + 4 * k;
          EXPECT_GE(box[0] - box[2] / 2, -1e-5F);
          EXPECT_LE(box[1] + box[3] / 2, 1 + 1e-5F);
          EXPECT_GE(std::min(box[2], box[3]) * 96, 3 - 1e-3F) << "smaller ones are dropped";
        }
      }
    }
  }
  EXPECT_GT(boxes, 200);
}

TEST_F(Scenes, EvaluationBatchesKeepTheOrderAndEveryObject) {
  const DetectionSet set = open_test_set(options());
  DataLoader loader(set.dataset, {.batch_size = 7, .remainder = Remainder::kKeep, .collate = collate_of(certain())});
  std::int64_t id = 0;
  for (const Batch& batch : loader.epoch(0)) {
    EXPECT_EQ(batch.data.size(0), std::ssize(batch.indices));
    for (const Detections& truth : std::any_cast<const Targets&>(batch.extra)) EXPECT_EQ(truth.id, ++id);
  }
  EXPECT_EQ(id, 24);
}

TEST(ScalesOf, AreTheOnesOfTheOrigin) {
  EXPECT_THAT(scales_of(640, 3, 32), ElementsAre(480, 512, 544, 576, 608, 640, 640, 640, 800, 768, 736, 704, 672));
  EXPECT_THAT(scales_of(160, 2, 32), ElementsAre(96, 128, 160, 160, 192, 160));
  EXPECT_THAT(scales_of(160, 1, 16), ElementsAre(112, 128, 144, 160, 192, 176, 160));
  EXPECT_THAT(scales_of(32, 1, 32), ElementsAre(32, 32));
  for (const auto& [base, repeat, divisor] : {std::array{100, 1, 32}, std::array{0, 1, 32}, std::array{96, 0, 32}}) {
    EXPECT_THROW((void)scales_of(base, repeat, divisor), UsageError);
  }
}

TEST(AugmentOptions, AreRefusedWhereTheyDoNotFitTogether) {
  const auto fault = [](const auto& change) {
    AugmentOptions options;
    change(options);
    return fault_of<UsageError>([&] { (void)collate_of(options); });
  };
  EXPECT_THAT(fault([](auto& o) { o.policy = {5, 4, 9}; }), HasSubstr("[5, 4, 9]"));
  EXPECT_THAT(fault([](auto& o) { o.mosaic_prob = 1.5; }), HasSubstr("mosaic_prob is 1.5"));
  EXPECT_THAT(fault([](auto& o) { o.zoom_out_max = 0.5; }), HasSubstr("zoom_out_max"));
  EXPECT_THAT(fault([](auto& o) { o.iou_crop_min = 0; }), HasSubstr("iou_crop_min"));
  EXPECT_THAT(fault([](auto& o) { o.mosaic_max_scale = 0.1; }), HasSubstr("mosaic"));
  EXPECT_THAT(fault([](auto& o) { o.base_size = 100; }), HasSubstr("100"));
}

TEST(Voc, GivesBatchesAndLeavesTheBoxesWithoutAreaOut) {
  LOCKSTEP_DATA_OR_SKIP(folder, "bccd");
  AugmentOptions augment;
  augment.base_size = 96;
  augment.policy = {0, 1, 2};
  ::testing::internal::CaptureStderr();
  const DetectionSet set = open_training_set({.source = {.path = folder.string(), .split = "trainval"}}, augment);
  const std::string note = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(set.class_names, ElementsAre("Platelets", "RBC", "WBC"));
  EXPECT_GT(set.dropped, 0);
  EXPECT_THAT(note, HasSubstr(fmt::format("{} boxes without area", set.dropped)));
  EXPECT_THAT(note, HasSubstr("BloodImage_"));
  DataLoader loader(set.dataset, {.batch_size = 4, .workers = 1, .collate = collate_of(augment)});
  std::int64_t boxes = 0;
  std::int64_t steps = 0;
  for (const Batch& batch : loader.epoch(0)) {
    EXPECT_THAT(batch.data.sizes(), ElementsAre(4, 3, 96, 96));
    for (const Detections& target : std::any_cast<const Targets&>(batch.extra)) boxes += target.boxes.size(0);
    if (++steps == 3) break;
  }
  EXPECT_GT(boxes, 20);
}

}  // namespace detection_dataset_test

namespace detection_generate_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Synthetic scenes: the same bytes for the same seed, the specified counts, sizes and overlaps, tight boxes, and errors
// that name the cause.

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
  const auto full = [](std::int64_t, std::int64_t) { throw IoError("the disk is full"); };
  EXPECT_THROW(generate_scenes({.out = folder / "set", .count = 200, .seed = 1, .size = {64, 64}, .threads = 2}, full),
               IoError);
  EXPECT_FALSE(fs::exists(folder / "set" / "annotations.json"));
}

TEST(ParseSides, TakesOneSideOrARange) {
  const auto sides = [](const char* text) { return common::parse_sides(text, kSides); };
  EXPECT_EQ(sides("160").least, 160);
  EXPECT_EQ(sides("160").most, 160);
  EXPECT_EQ(sides("128-192").least, 128);
  EXPECT_EQ(sides("128-192").most, 192);
  EXPECT_THAT(test::fault_of<UsageError>([&] { (void)sides("large"); }), HasSubstr("large"));
  EXPECT_THAT(test::fault_of<UsageError>([&] { (void)sides("192-128"); }), HasSubstr("reversed"));
  for (const char* wrong : {"", "12", "-160", "160-", "128-192-256", "160 "}) {
    EXPECT_THROW((void)sides(wrong), UsageError) << wrong;
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
        EXPECT_GE(object.area, 25) << "pixels, enough to be distinct";
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
    // A fine grid provides the expected result for the polygon arithmetic.
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
    ScenePixels canvas({64, 64});
    canvas.paint(star, paint);
    double sum = 0;
    for (const std::uint8_t value : canvas.rounded().pixels) sum += value / 255.0 / 3;
    EXPECT_NEAR(sum, covered_area(star, paint), 1);
  }
  EXPECT_NEAR(covered_area(star, {}), 400, 8);
}

}  // namespace detection_generate_test
}  // namespace lockstep::detection
