// SPDX-License-Identifier: Apache-2.0
// Images with label maps: layouts, training and evaluation samples. Images and their maps stay aligned through all
// operations.
#include "segmentation/data/dataset.h"

#include <ATen/ops/equal.h>
#include <ATen/TensorOperators.h>

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "common/set_files.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/loader.h"
#include "segmentation/data/dataset_augment.h"
#include "support/data_folder.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep::segmentation {
namespace segmentation_dataset_test {

namespace fs = std::filesystem;
using test::fault_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::array<std::array<std::uint8_t, 3>, 3> kColours{{{250, 20, 30}, {20, 240, 40}, {10, 30, 230}}};
constexpr std::array<float, 3> kMean{0.485F, 0.456F, 0.406F};
constexpr std::array<float, 3> kDeviation{0.229F, 0.224F, 0.225F};

/// An image of patches of three classes; `weights` is 40, 80 and 120 on the classes.
struct Patches {
  Image picture;
  Image mask;
  Image weights;
};

Patches patches(ImageSize size, std::uint64_t seed) {
  Patches made{{size, 3, {}}, {size, 1, {}}, {size, 1, {}}};
  for (std::int64_t y = 0; y < size.height; ++y) {
    for (std::int64_t x = 0; x < size.width; ++x) {
      SampleRandom random(seed, static_cast<std::uint64_t>(x / 24), static_cast<std::uint64_t>(y / 20));
      const auto label = static_cast<std::uint8_t>(random.below(3));
      made.mask.pixels.push_back(label);
      made.weights.pixels.push_back(static_cast<std::uint8_t>(40 * (label + 1)));
      made.picture.pixels.insert(made.picture.pixels.end(), kColours[label].begin(), kColours[label].end());
    }
  }
  return made;
}

/// A dataset of patches in plain folders; scribbles are class 2 everywhere, to distinguish them from masks.
class PatchSet : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"images", "masks", "scribbles", "pseudo_labels", "distance_scribble", "distance_class"}) {
      FileSystem::system().make_folder(folder_ / name);
    }
    for (int i = 0; i < 3; ++i) {
      const ImageSize size{100 + 20 * i, 90};
      const Patches made = patches(size, static_cast<std::uint64_t>(i));
      const std::string name = "p" + std::to_string(i) + ".png";
      common::write_set_picture(made.picture, folder_ / "images" / name);
      common::write_set_picture(made.mask, folder_ / "masks" / name);
      Image scribbles{size, 1, std::vector<std::uint8_t>(made.mask.pixels.size(), 2)};
      scribbles.pixels.back() = 0;
      common::write_set_picture(scribbles, folder_ / "scribbles" / name);
      common::write_set_picture(made.mask, folder_ / "pseudo_labels" / name);
      common::write_set_picture(made.weights, folder_ / "distance_scribble" / name);
      common::write_set_picture(made.weights, folder_ / "distance_class" / name);
    }
  }
  [[nodiscard]] SetOptions options() const {
    return {.path = folder_.path().string(), .classes = 3, .planes = {true, true, true}};
  }

  test::TempDir folder_;
};

Sample taken(const SegmentationSet& set, std::int64_t index, std::int64_t epoch = 0, std::uint64_t seed = 1) {
  SampleContext context(seed, epoch, index);
  return set.dataset->get(index, context);
}

/// The colour of a training sample at a pixel, in bytes.
std::array<int, 3> colour_at(const Sample& sample, std::int64_t pixel) {
  std::array<int, 3> colour{};
  const std::int64_t plane = sample.data.size(1) * sample.data.size(2);
  for (std::size_t c = 0; c < 3; ++c) {
    const float value = sample.data.data_ptr<float>()[static_cast<std::int64_t>(c) * plane + pixel];
    colour[c] = static_cast<int>(std::lround((value * kDeviation[c] + kMean[c]) * 255.0F));
  }
  return colour;
}

/// True if all 7 x 7 labels around a pixel are equal: in that case, no other patch is blended into the image there.
bool alone(const std::uint8_t* labels, std::int64_t side, std::int64_t at) {
  const std::int64_t x = at % side;
  const std::int64_t y = at / side;
  if (std::min(x, y) < 3 || std::max(x, y) + 3 >= side) return false;
  for (std::int64_t v = y - 3; v <= y + 3; ++v) {
    for (std::int64_t u = x - 3; u <= x + 3; ++u) {
      if (labels[v * side + u] != labels[at]) return false;
    }
  }
  return true;
}

TEST_F(PatchSet, PictureAndMapsStayTogetherThroughAllSteps) {
  constexpr std::int64_t kSide = 80;
  const SegmentationSet set =
      open_training_set(options(), {.crop = kSide, .rotate_degrees = 30, .rotate_prob = 0.7, .blur_prob = 0});
  std::int64_t looked_at = 0;
  std::int64_t outside = 0;
  for (std::int64_t epoch = 0; epoch < 25; ++epoch) {
    const Sample sample = taken(set, epoch % 3, epoch);
    const auto* labels = sample.target.data_ptr<std::uint8_t>();
    constexpr std::int64_t kPlane = kSide * kSide;
    for (std::int64_t at = 0; at < kPlane; ++at) {
      const std::uint8_t label = labels[at];
      ASSERT_EQ(labels[kPlane + at], label) << "pseudo-labels are the masks here";
      ASSERT_EQ(labels[2 * kPlane + at], label == kUnlabelled ? 0 : 40 * (label + 1));
      ASSERT_EQ(labels[3 * kPlane + at], labels[2 * kPlane + at]);
      if (!alone(labels, kSide, at)) continue;
      const std::array<int, 3> seen = colour_at(sample, at);
      if (label == kUnlabelled) {
        ASSERT_THAT(seen, ElementsAre(124, 116, 104)) << "the mean colour around the picture";
        ++outside;
      } else {
        for (std::size_t c = 0; c < 3; ++c) {
          // A sliver of another patch, too small for the map, may tint the image slightly.
          ASSERT_NEAR(seen[c], kColours[label][c], 15) << "epoch " << epoch << ", pixel " << at;
        }
        ++looked_at;
      }
    }
  }
  EXPECT_GT(looked_at, 15'000);
  EXPECT_GT(outside, 1'000);
}

TEST_F(PatchSet, SamplesDependOnSeedEpochAndIndexOnly) {
  const SegmentationSet set = open_training_set(options(), {.crop = 48});
  const SegmentationSet again = open_training_set(options(), {.crop = 48});
  EXPECT_TRUE(at::equal(taken(set, 1, 4).data, taken(again, 1, 4).data));
  EXPECT_TRUE(at::equal(taken(set, 1, 4).target, taken(again, 1, 4).target));
  EXPECT_FALSE(at::equal(taken(set, 1, 4).data, taken(set, 1, 5).data));
  EXPECT_FALSE(at::equal(taken(set, 1, 4).data, taken(set, 1, 4, 2).data));
}

TEST_F(PatchSet, BatchesAreTheSameWithAnyNumberOfWorkers) {
  const SegmentationSet set = open_training_set(options(), {.crop = 32});
  for (const bool collated : {false, true}) {
    std::vector<at::Tensor> first;
    for (const std::int64_t workers : {0, 2}) {
      DataLoaderOptions loading{.batch_size = 2, .workers = workers, .shuffle = true, .seed = 3};
      if (collated) loading.collate = collate();
      DataLoader loader(set.dataset, loading);
      std::vector<at::Tensor> seen;
      for (const Batch& batch : loader.epoch(1)) {
        seen.push_back(batch.data.clone());
        seen.push_back(batch.target.clone());
      }
      EXPECT_THAT(seen.front().sizes().vec(), ElementsAre(2, 3, 32, 32));
      EXPECT_THAT(seen[1].sizes().vec(), ElementsAre(2, 4, 32, 32));
      if (first.empty()) first = seen;
      for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(at::equal(first[i], seen[i]));
    }
  }
}

TEST_F(PatchSet, WithoutChanceASampleIsThePictureItself) {
  const AugmentOptions nothing{
      .crop = 90, .scale_min = 1, .scale_max = 1, .rotate_prob = 0, .blur_prob = 0, .flip_prob = 0};
  SetOptions plain = options();
  plain.planes = {};
  const SegmentationSet set = open_training_set(plain, nothing);
  const Sample sample = taken(set, 0);
  EXPECT_THAT(sample.target.sizes().vec(), ElementsAre(1, 90, 90));
  EXPECT_EQ(sample.target.scalar_type(), c10::ScalarType::Byte);
  const Image mask = set.source->get(0).maps.front().image;
  bool found = false;  // the crop is 90 of 100 columns
  for (std::int64_t left = 0; left <= 10 && !found; ++left) {
    found = true;
    for (std::int64_t y = 0; y < 90 && found; ++y) {
      found = std::equal(sample.target.data_ptr<std::uint8_t>() + y * 90,
                         sample.target.data_ptr<std::uint8_t>() + (y + 1) * 90, mask.pixels.begin() + y * 100 + left);
    }
  }
  EXPECT_TRUE(found);
}

TEST_F(PatchSet, EachStepDoesWhatItsOptionSays) {
  AugmentOptions nothing{.crop = 60, .scale_min = 1, .scale_max = 1, .rotate_prob = 0, .blur_prob = 0, .flip_prob = 0};
  const auto unlabelled = [&](const AugmentOptions& augment) {
    const at::Tensor labels = taken(open_training_set(options(), augment), 0).target.select(0, 0);
    return (labels == kUnlabelled).sum().item<std::int64_t>();
  };
  EXPECT_EQ(unlabelled(nothing), 0) << "the picture is 100 x 90";
  AugmentOptions smaller = nothing;
  smaller.scale_min = smaller.scale_max = 0.5;
  EXPECT_NEAR(static_cast<double>(unlabelled(smaller)), 3600 - 50 * 45, 60) << "half of its sides in 60 x 60";
  AugmentOptions whole = nothing;
  whole.crop = 90;
  AugmentOptions turned = whole;
  turned.rotate_degrees = 40;
  turned.rotate_prob = 1;
  EXPECT_EQ(unlabelled(whole), 0);
  EXPECT_GT(unlabelled(turned), 100) << "corners from outside of the picture";
  const at::Tensor plain = taken(open_training_set(options(), nothing), 0).data;
  AugmentOptions blurred = nothing;
  blurred.blur_prob = 1;
  EXPECT_FALSE(at::equal(taken(open_training_set(options(), blurred), 0).data, plain));
  AugmentOptions mirrored = nothing;
  mirrored.flip_prob = 1;
  EXPECT_TRUE(at::equal(taken(open_training_set(options(), mirrored), 0).data.flip({2}), plain));
}

TEST_F(PatchSet, SupervisionChoosesTheLabelsOfTrainingAndNotOfEvaluation) {
  SetOptions scribbles = options();
  scribbles.supervision = Supervision::kScribbles;
  EXPECT_EQ(open_training_set(scribbles, {.crop = 32}).source->get(0).maps.front().image.pixels.front(), 2);
  EXPECT_EQ(open_training_set(options(), {.crop = 32}).source->get(0).maps.front().image.pixels,
            open_test_set(scribbles).source->get(0).maps.front().image.pixels);
}

TEST_F(PatchSet, FoldersMayHaveOtherNamesAndLieElsewhere) {
  fs::rename(folder_ / "masks", folder_ / "truth");
  EXPECT_THAT(fault_of<DataError>([&] { (void)open_test_set(options()); }), HasSubstr("has no masks"));
  SetOptions named = options();
  named.masks = "truth";
  EXPECT_EQ(open_test_set(named).source->size(), 3);
  named.masks = (folder_ / "truth").string();
  EXPECT_EQ(open_test_set(named).source->size(), 3);
  named.masks = "nowhere";
  EXPECT_THAT(fault_of<DataError>([&] { (void)open_test_set(named); }), HasSubstr("nowhere"));
}

TEST_F(PatchSet, InTheLayoutOfVocListsSayWhichPicturesBelongToIt) {
  const fs::path root = folder_ / "voc";
  for (const char* name : {"ImageSets/Segmentation", "SegmentationClass"})
    FileSystem::system().make_folder(root / name);
  fs::rename(folder_ / "images", root / "JPEGImages");
  for (int i = 0; i < 3; ++i) {
    const std::string name = "p" + std::to_string(i) + ".png";
    fs::copy_file(folder_ / "masks" / name, root / "SegmentationClass" / name);
  }
  write_file_atomically(FileSystem::system(), root / "ImageSets/Segmentation/train.txt", "p2\n\np0\n");
  write_file_atomically(FileSystem::system(), root / "ImageSets/Segmentation/val.txt",
                        "/JPEGImages/p1.png /SegmentationClass/p1.png\n");
  SetOptions voc{.path = root.string(), .classes = 3};
  EXPECT_EQ(open_training_set(voc, {.crop = 32}).source->size(), 2);
  EXPECT_THAT(open_training_set(voc, {.crop = 32}).dataset->describe(0), HasSubstr("p2.png"));
  EXPECT_THAT(open_test_set(voc).dataset->describe(0), HasSubstr("p1.png"));
  voc.split = "trainval";
  EXPECT_THAT(fault_of<DataError>([&] { (void)open_test_set(voc); }),
              ::testing::AllOf(HasSubstr("trainval.txt"), HasSubstr("Segmentation/train.txt")));
}

TEST_F(PatchSet, EvaluationSeesWholePicturesPaddedToOneSize) {
  const SegmentationSet set = open_test_set(options());
  std::vector<Sample> samples;
  for (std::int64_t i = 0; i < 3; ++i) samples.push_back(taken(set, i));
  EXPECT_THAT(samples[2].data.sizes().vec(), ElementsAre(3, 90, 140));
  const at::Tensor last = samples[0].data;
  const Batch batch = collate()(std::move(samples), {});
  EXPECT_THAT(batch.data.sizes().vec(), ElementsAre(3, 3, 90, 140));
  EXPECT_TRUE(at::equal(batch.data.select(0, 0).narrow(2, 0, 100), last));
  EXPECT_EQ(batch.data.select(0, 0).narrow(2, 100, 40).abs().max().item<float>(), 0.0F);
  const auto truths = std::any_cast<std::vector<EvalPicture>>(batch.extra);
  EXPECT_THAT(truths[1].mask.sizes().vec(), ElementsAre(90, 120));
  EXPECT_THAT(truths[1].name, HasSubstr("p1.png"));
  EXPECT_EQ(truths[1].mask.data_ptr<std::uint8_t>()[0], set.source->get(1).maps.front().image.pixels[0]);
}

TEST_F(PatchSet, OptionsThatAreOutOfRangeAreNamed) {
  const auto fault = [&](const AugmentOptions& augment) {
    return fault_of<UsageError>([&] { (void)open_training_set(options(), augment); });
  };
  EXPECT_THAT(fault({.crop = 0}), HasSubstr("crop"));
  EXPECT_THAT(fault({.scale_min = 2, .scale_max = 1}), HasSubstr("scales"));
  EXPECT_THAT(fault({.rotate_degrees = 200}), HasSubstr("rotate_degrees"));
  EXPECT_THAT(fault({.flip_prob = 1.5}), HasSubstr("flip_prob"));
  SetOptions one = options();
  one.classes = 1;
  EXPECT_THAT(fault_of<UsageError>([&] { (void)open_test_set(one); }), HasSubstr("1 classes"));
}

TEST(NucleiSet, AreOpenedAsTwoClasses) {
  LOCKSTEP_DATA_OR_SKIP(nuclei, "nuclei");
  const SetOptions options{.path = nuclei.string(), .classes = 2};
  const SegmentationSet train = open_training_set(options, {.crop = 128});
  EXPECT_EQ(train.dataset->size(), 120);
  EXPECT_THAT(train.source->class_names(), ElementsAre("background", "foreground"));
  EXPECT_TRUE(train.notes.empty());
  EXPECT_THAT(taken(train, 7).target.sizes().vec(), ElementsAre(1, 128, 128));
  EXPECT_EQ(open_test_set(options).dataset->size(), 40);
}

}  // namespace segmentation_dataset_test
}  // namespace lockstep::segmentation
