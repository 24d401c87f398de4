// SPDX-License-Identifier: Apache-2.0
// Generated and derived sets on disk: the same bytes for the same seed on any number of threads, and layouts that the
// recipe opens.
#include "segmentation/generate.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "segmentation/dataset.h"
#include "segmentation/label_file.h"
#include "segmentation/scene.h"
#include "segmentation/weak_folders.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep::segmentation {
namespace segmentation_generate_test {

namespace fs = std::filesystem;
using test::fault_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

/// Content by path, relative to the folder.
std::map<std::string, std::string> content_of(const fs::path& folder) {
  std::map<std::string, std::string> content;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      content[fs::relative(entry.path(), folder).string()] = FileSystem::system().read(entry.path());
    }
  }
  return content;
}

GenerateOptions small_set(const fs::path& out, std::int64_t count) {
  return {.out = out, .count = count, .seed = 4, .size = {40, 56}, .threads = 1};
}

TEST(GeneratedSets, HaveTheSameBytesOnAnyNumberOfThreads) {
  const test::TempDir folder;
  (void)generate_set(small_set(folder / "one", 6));
  GenerateOptions more = small_set(folder / "four", 6);
  more.threads = 4;
  (void)generate_set(more);
  EXPECT_EQ(content_of(folder / "one"), content_of(folder / "four"));
  EXPECT_EQ(content_of(folder / "one").size(), 6U * 6 + 2);
}

TEST(GeneratedSets, BeginWithThoseThatAreShorter) {
  const test::TempDir folder;
  (void)generate_set(small_set(folder / "short", 3));
  (void)generate_set(small_set(folder / "long", 5));
  const auto longer = content_of(folder / "long");
  for (const auto& [path, bytes] : content_of(folder / "short")) {
    if (!path.starts_with("ImageSets")) {
      EXPECT_EQ(longer.at(path), bytes) << path;
    }
  }
}

TEST(GeneratedSets, AreOpenedWithAllTheirMaps) {
  const test::TempDir folder;
  const GeneratedSet made = generate_set(small_set(folder / "set", 10));
  EXPECT_EQ(made.train, 8);
  EXPECT_EQ(made.val, 2);
  const std::string path = (folder / "set").string();
  const SetOptions options{
      .path = path, .supervision = Supervision::kScribbles, .classes = 5, .planes = {true, true, true}};
  EXPECT_EQ(open_training_set(options, {.crop = 32}).dataset->size(), 8);
  EXPECT_EQ(open_test_set(options).dataset->size(), 2);
}

TEST(GeneratedSets, NeverMixWithWhatIsThere) {
  const test::TempDir folder;
  (void)generate_set(small_set(folder / "set", 2));
  EXPECT_THAT(fault_of<UsageError>([&] { (void)generate_set(small_set(folder / "set", 2)); }), HasSubstr("not empty"));
}

TEST(GeneratedSets, RefuseSidesThatAreNone) {
  EXPECT_THAT(fault_of<UsageError>([] { (void)parse_sides("large"); }), HasSubstr("large"));
  EXPECT_THAT(fault_of<UsageError>([] { (void)parse_sides("64-40"); }), HasSubstr("backwards"));
  EXPECT_EQ(parse_sides("64").most, 64);
  EXPECT_EQ(parse_sides("64-80").most, 80);
}

TEST(MaskedScenes, ShowAllClassesAndNoiseOnEveryone) {
  std::set<std::uint8_t> classes;
  for (std::int64_t i = 0; i < 12; ++i) {
    const Scene scene = make_scene(2, i, {64, 64});
    classes.insert(scene.mask.pixels.begin(), scene.mask.pixels.end());
    EXPECT_EQ(scene.picture.pixels.size(), 3 * scene.mask.pixels.size());
  }
  EXPECT_THAT(classes, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_NE(make_scene(2, 0, {64, 64}).picture.pixels, make_scene(3, 0, {64, 64}).picture.pixels);
  EXPECT_THAT(fault_of<UsageError>([] { (void)make_scene(0, 0, {8, 64}); }), HasSubstr("8 pixels"));
}

TEST(MaskedScenes, InMemoryAreThoseOnDisk) {
  const test::TempDir folder;
  (void)generate_set({.out = folder / "set", .count = 3, .seed = 9, .size = {48, 48}, .val_share = 0, .threads = 1});
  SetOptions options{.path = (folder / "set").string(),
                     .supervision = Supervision::kScribbles,
                     .classes = 5,
                     .planes = {true, true, true},
                     .scene_side = 48};
  const SegmentationSet on_disk = open_training_set(options, {.crop = 32});
  options.path = "scenes:3:9";
  const SegmentationSet in_memory = open_training_set(options, {.crop = 32});
  for (std::int64_t i = 0; i < 3; ++i) {
    AnnotatedImage a = on_disk.source->get(i);
    AnnotatedImage b = in_memory.source->get(i);
    EXPECT_EQ(a.pixels.decoded().pixels, b.pixels.decoded().pixels);
    ASSERT_EQ(a.maps.size(), b.maps.size());
    for (std::size_t k = 0; k < a.maps.size(); ++k) EXPECT_EQ(a.maps[k].image.pixels, b.maps[k].image.pixels) << k;
  }
}

TEST(MaskedScenes, AreNamedByCountAndSeed) {
  const auto open = [](const std::string& path) {
    return fault_of<UsageError>([&] { (void)open_test_set({.path = path, .classes = 5, .scene_side = 32}); });
  };
  EXPECT_EQ(open("scenes:1:2"), "not thrown");
  EXPECT_THAT(open("scenes:many"), HasSubstr("'many' is no number"));
  EXPECT_THAT(open("scenes:0"), HasSubstr("without pictures"));
  EXPECT_THAT(fault_of<UsageError>([] { (void)open_test_set({.path = "scenes:2", .classes = 3}); }), HasSubstr("5"));
}

/// Two splits with pictures and masks of classes, or with instances.
void write_masked(const fs::path& root, const std::string& kind) {
  for (const std::string split : {"train", "val"}) {
    for (const std::string& folder : {std::string("images"), kind})
      FileSystem::system().make_folder(root / split / folder);
    for (std::int64_t i = 0; i < 2; ++i) {
      const Scene scene = make_scene(split == "train" ? 1 : 2, i, {40, 32});
      const std::string name = split + std::to_string(i) + ".png";
      write_map(scene.picture, root / split / "images" / name);
      write_map(scene.mask, root / split / kind / name);
    }
  }
}

TEST(WeakSets, AreMadeOfFoldersWithSplits) {
  const test::TempDir folder;
  write_masked(folder / "full", "masks");
  const WeakSet set = write_weak_set({.from = folder / "full", .out = folder / "weak", .weak = {.seed = 3}});
  EXPECT_THAT(set.splits, ElementsAre(Pair("train", 2), Pair("val", 2)));
  EXPECT_GT(set.scribbles.labelled_share(), 0.01);
  EXPECT_LT(set.scribbles.labelled_share(), 0.2);
  EXPECT_GT(set.pseudo_labels.mean_iou(), 0.5);
  const SetOptions options{.path = (folder / "weak").string(),
                           .supervision = Supervision::kScribbles,
                           .classes = 5,
                           .planes = {true, true, true}};
  EXPECT_EQ(open_training_set(options, {.crop = 24}).source->size(), 2);
  const AnnotatedImage val = open_test_set(options).source->get(1);
  EXPECT_EQ(val.maps.front().image.pixels, make_scene(2, 1, {40, 32}).mask.pixels);
  // A set in VOC's layout is a source as well.
  const WeakSet again = write_weak_set({.from = folder / "weak", .out = folder / "again", .weak = {.seed = 3}});
  EXPECT_EQ(content_of(folder / "weak"), content_of(folder / "again"));
  EXPECT_EQ(again.splits, set.splits);
}

TEST(WeakSets, OfInstancesHaveTwoClasses) {
  const test::TempDir folder;
  write_masked(folder / "full", "instances");
  (void)write_weak_set({.from = folder / "full" / "train", .out = folder / "weak"});
  for (const auto& name : FileSystem::system().list(folder / "weak/SegmentationClassAug")) {
    const Image mask = read_map(folder / "weak/SegmentationClassAug" / name, MapMeaning::kClasses);
    EXPECT_LE(*std::ranges::max_element(mask.pixels), 1);
  }
  EXPECT_TRUE(fs::exists(folder / "weak/ImageSets/SegmentationAug/train.txt"));
}

TEST(WeakFolders, AreMadeStepByStepAsAtOnce) {
  const test::TempDir folder;
  write_masked(folder / "full", "masks");
  const fs::path train = folder / "full" / "train";
  const MapCounts scribbles =
      write_scribbles({.masks = train / "masks", .out = folder / "scribbles", .seed = 3, .threads = 1});
  EXPECT_EQ(scribbles.maps, 2);
  (void)write_pseudo_labels(
      {.images = train / "images", .scribbles = folder / "scribbles", .masks = {}, .out = folder / "pseudo"});
  (void)write_distance_maps({.labels = folder / "scribbles", .out = folder / "ds"});
  (void)write_distance_maps({.labels = folder / "pseudo", .scribbles = false, .out = folder / "dc"});
  (void)write_weak_set({.from = train, .out = folder / "weak", .weak = {.seed = 3}});
  EXPECT_EQ(content_of(folder / "scribbles"), content_of(folder / "weak/pascal_2012_scribble"));
  EXPECT_EQ(content_of(folder / "pseudo"), content_of(folder / "weak/bmp_pseudolabel"));
  EXPECT_EQ(content_of(folder / "ds"), content_of(folder / "weak/distance_map"));
  EXPECT_EQ(content_of(folder / "dc"), content_of(folder / "weak/distance_pseudo"));
  (void)write_pseudo_labels({.method = PseudoMethod::kCoarse,
                             .images = {},
                             .scribbles = {},
                             .masks = train / "masks",
                             .out = folder / "coarse"});
  EXPECT_EQ(content_of(folder / "coarse").size(), 2U);
}

TEST(WeakFolders, SayWhatIsMissing) {
  const test::TempDir folder;
  write_masked(folder / "full", "masks");
  const auto fault = [&](const fs::path& masks) {
    return fault_of<DataError>([&] { (void)write_scribbles({.masks = masks, .out = folder / "out"}); });
  };
  EXPECT_THAT(fault(folder / "nowhere"), HasSubstr("nowhere is missing"));
  FileSystem::system().make_folder(folder / "empty");
  EXPECT_THAT(fault(folder / "empty"), HasSubstr("empty holds no PNG"));
}

}  // namespace segmentation_generate_test
}  // namespace lockstep::segmentation
