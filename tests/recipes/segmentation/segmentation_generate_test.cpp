// SPDX-License-Identifier: Apache-2.0
// Generated and derived datasets on disk: the same bytes for the same seed on any number of threads, and layouts that
// the recipe opens.
#include "segmentation/synthetic/generate.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "segmentation/data/dataset.h"
#include "segmentation/data/label_file.h"
#include "segmentation/data/weak_folders.h"
#include "segmentation/synthetic/scene.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep::segmentation {
namespace segmentation_generate_test {

namespace fs = std::filesystem;
using test::fault_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

/// File contents by path, relative to the folder.
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

TEST(GeneratedSets, HaveAtLeastOnePictureToTrain) {
  const test::TempDir folder;
  GenerateOptions options = small_set(folder / "set", 2);
  options.val_share = 0.9;
  EXPECT_THAT(fault_of<UsageError>([&] { (void)generate_set(options); }), HasSubstr("leaves none for training"));
  EXPECT_FALSE(fs::exists(folder / "set"));
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

TEST(MaskedScenes, OfFewObjectsHaveOneColourForEachClass) {
  std::map<int, std::array<double, 4>> sums;  // red, green, blue, number of pixels
  for (std::int64_t i = 0; i < 40; ++i) {
    const Scene scene = make_scene(2, i, {64, 64}, SceneObjects::kFew);
    for (std::size_t at = 0; at < scene.mask.pixels.size(); ++at) {
      auto& sum = sums[scene.mask.pixels[at]];
      for (std::size_t channel = 0; channel < 3; ++channel) sum[channel] += scene.picture.pixels[3 * at + channel];
      ++sum[3];
    }
  }
  ASSERT_EQ(sums.size(), kSceneClasses.size());
  const auto mean = [&](int kind, std::size_t channel) { return sums[kind][channel] / sums[kind][3]; };
  EXPECT_LT(mean(0, 0), 70) << "the ground is dark";
  EXPECT_GT(mean(1, 0), mean(1, 1) + 80) << "a disc is red";
  EXPECT_GT(mean(2, 1), mean(2, 0) + 80) << "a square is green";
  EXPECT_GT(mean(3, 2), mean(3, 0) + 80) << "a triangle is blue";
  EXPECT_GT(mean(4, 1), mean(4, 2) + 80) << "a ring is yellow";
}

TEST(MaskedScenes, AreNamedByCountAndSeed) {
  const auto open = [](const std::string& path) {
    return fault_of<UsageError>([&] { (void)open_test_set({.path = path, .classes = 5, .scene_side = 32}); });
  };
  EXPECT_EQ(open("scenes:1:2"), "not thrown");
  EXPECT_THAT(open("scenes:many"), HasSubstr("'many' is not a number"));
  EXPECT_THAT(open("scenes:0"), HasSubstr("must be 1 .. 10000000"));
  EXPECT_THAT(fault_of<UsageError>([] { (void)open_test_set({.path = "scenes:2", .classes = 3}); }), HasSubstr("5"));
}

/// Two splits of images with class masks, or with instances.
void write_masked(const fs::path& root, const std::string& kind) {
  for (const std::string split : {"train", "val"}) {
    for (const std::string& folder : {std::string("images"), kind})
      FileSystem::system().make_folder(root / split / folder);
    for (std::int64_t i = 0; i < 2; ++i) {
      const Scene scene = make_scene(split == "train" ? 1 : 2, i, {40, 32});
      const std::string name = split + std::to_string(i) + ".png";
      common::write_set_picture(scene.picture, root / split / "images" / name);
      common::write_set_picture(scene.mask, root / split / kind / name);
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
  // A dataset in VOC's layout also works as a source.
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

/// A dataset in VOC's layout with images 0 .. 5 and lists of them.
class ListedSets : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"JPEGImages", "SegmentationClass", "ImageSets/Segmentation"}) {
      FileSystem::system().make_folder(set_ / name);
    }
    for (std::int64_t i = 0; i < 6; ++i) {
      const Scene scene = make_scene(1, i, {40, 32});
      common::write_set_picture(scene.picture, set_ / "JPEGImages" / (std::to_string(i) + ".png"));
      common::write_set_picture(scene.mask, set_ / "SegmentationClass" / (std::to_string(i) + ".png"));
    }
    list("train", "2\n0\n");
    list("val", "1\n");
  }
  void list(const std::string& name, const std::string& text) const {
    write_file_atomically(FileSystem::system(), set_ / "ImageSets/Segmentation" / (name + ".txt"), text);
  }
  /// The output while the dataset's weak labels are being generated.
  std::string made() {
    ::testing::internal::CaptureStderr();
    splits_ = write_weak_set({.from = set_, .out = folder_ / "weak"}).splits;
    return ::testing::internal::GetCapturedStderr();
  }

  test::TempDir folder_;
  fs::path set_ = folder_ / "set";
  std::vector<std::pair<std::string, std::int64_t>> splits_;
};

TEST_F(ListedSets, KeepEveryListThatHasMoreThanTrainAndVal) {
  list("test", "3\n4\n");
  list("all", "0\n1\n2\n5\n");
  EXPECT_EQ(made(), "");
  EXPECT_THAT(splits_, ElementsAre(Pair("all", 4), Pair("test", 2), Pair("train", 2), Pair("val", 1)));
  EXPECT_EQ(FileSystem::system().read(folder_ / "weak/ImageSets/SegmentationAug/test.txt"), "3\n4\n");
  EXPECT_EQ(FileSystem::system().list(folder_ / "weak/JPEGImages").size(), 6U);
}

TEST_F(ListedSets, SayWhichListsAreLeftOut) {
  list("trainval", "0\n1\n2\n");
  list("test", "3\n4\n");
  for (const char* name : {"3.png", "4.png"}) fs::remove(set_ / "SegmentationClass" / name);
  EXPECT_THAT(made(), AllOf(HasSubstr("skipped lists whose images are all in train and val: trainval"),
                            HasSubstr("skipped lists without any mask: test")));
  EXPECT_THAT(splits_, ElementsAre(Pair("train", 2), Pair("val", 1)));
}

TEST_F(ListedSets, MayNotLackTheMasksOfSomePictures) {
  list("test", "3\n4\n");
  fs::remove(set_ / "SegmentationClass/4.png");
  EXPECT_THAT(fault_of<DataError>([&] { (void)write_weak_set({.from = set_, .out = folder_ / "weak"}); }),
              AllOf(HasSubstr("test.txt: 1 of 2 images are incomplete: missing 1 file"), HasSubstr("4.png")));
}

TEST_F(ListedSets, AreOpenedAgainWhateverThePicturesNames) {
  for (const auto& [from, to] : {std::pair("0.png", "s.1.PNG"), std::pair("1.png", "b c.png")}) {
    fs::rename(set_ / "JPEGImages" / from, set_ / "JPEGImages" / to);
    fs::rename(set_ / "SegmentationClass" / from, set_ / "SegmentationClass" / to);
  }
  list("train", "2\ns.1\n");
  list("val", "b c\n");
  EXPECT_EQ(made(), "");
  const SetOptions options{.path = (folder_ / "weak").string(),
                           .supervision = Supervision::kScribbles,
                           .classes = 5,
                           .planes = {true, true, true}};
  EXPECT_THAT(open_training_set(options, {.crop = 24}).dataset->describe(1), HasSubstr("s.1.PNG"));
  EXPECT_THAT(open_test_set(options).dataset->describe(0), HasSubstr("b c.png"));
}

TEST(WeakFolders, FindPicturesAndMapsWhateverTheCaseOfTheirExtensions) {
  const test::TempDir folder;
  write_masked(folder / "full", "masks");
  const fs::path train = folder / "full" / "train";
  fs::rename(train / "masks/train0.png", train / "masks/train.0.PNG");
  fs::rename(train / "images/train0.png", train / "images/train.0.Png");
  EXPECT_EQ(write_scribbles({.masks = train / "masks", .out = folder / "scribbles"}).maps, 2);
  EXPECT_TRUE(fs::exists(folder / "scribbles/train.0.png"));
  const auto pseudo = [&](const fs::path& out) {
    return write_pseudo_labels(
        {.images = train / "images", .scribbles = folder / "scribbles", .masks = {}, .out = out});
  };
  EXPECT_EQ(pseudo(folder / "pseudo").maps, 2);
  fs::copy_file(train / "images/train1.png", train / "images/train1.jpg");
  EXPECT_THAT(fault_of<DataError>([&] { (void)pseudo(folder / "again"); }), HasSubstr("train1.jpg and train1.png"));
}

TEST(WeakFolders, RefuseALambdaThatIsNotPositive) {
  const test::TempDir folder;
  EXPECT_THAT(fault_of<UsageError>([&] {
                (void)write_distance_maps({.labels = folder / "scribbles", .lambda = 0, .out = folder / "out"});
              }),
              HasSubstr("lambda is 0"));
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
  EXPECT_THAT(fault(folder / "nowhere"), HasSubstr("nowhere does not exist"));
  FileSystem::system().make_folder(folder / "empty");
  EXPECT_THAT(fault(folder / "empty"), HasSubstr("empty holds no PNG"));
}

}  // namespace segmentation_generate_test
}  // namespace lockstep::segmentation
