// SPDX-License-Identifier: Apache-2.0
// Maps derived from full masks: distances compared with brute force, scribbles with their regions, pseudo-labels with
// images that have an obvious answer.
#include "segmentation/synthetic/derive.h"

#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "lockstep/base/error.h"
#include "segmentation/synthetic/planes.h"
#include "segmentation/synthetic/scene.h"
#include "support/fault_of.h"

namespace lockstep::segmentation {
namespace segmentation_derive_test {

using test::fault_of;
using ::testing::Each;
using ::testing::HasSubstr;

Image map_of(ImageSize size, std::uint8_t value) {
  return {size, 1, std::vector<std::uint8_t>(static_cast<std::size_t>(size.width * size.height), value)};
}

std::uint8_t& at(Image& map, std::int64_t x, std::int64_t y) {
  return map.pixels[static_cast<std::size_t>(y * map.size.width + x)];
}

void fill(Image& map, std::int64_t left, std::int64_t top, ImageSize size, std::uint8_t value) {
  for (std::int64_t y = top; y < top + size.height; ++y) {
    for (std::int64_t x = left; x < left + size.width; ++x) at(map, x, y) = value;
  }
}

std::vector<std::int64_t> brute_distances(const Image& sources) {
  std::vector<std::int64_t> squared(sources.pixels.size(), kNoSource);
  const std::int64_t width = sources.size.width;
  for (std::int64_t i = 0; i < std::ssize(squared); ++i) {
    for (std::int64_t k = 0; k < std::ssize(squared); ++k) {
      if (sources.pixels[static_cast<std::size_t>(k)] == 0) continue;
      const std::int64_t dx = i % width - k % width;
      const std::int64_t dy = i / width - k / width;
      auto& best = squared[static_cast<std::size_t>(i)];
      best = std::min(best, dx * dx + dy * dy);
    }
  }
  return squared;
}

TEST(DistanceMaps, AreExactlyThoseOfTryingEverySource) {
  for (const ImageSize size :
       {ImageSize{1, 1}, ImageSize{23, 1}, ImageSize{1, 17}, ImageSize{31, 22}, ImageSize{40, 40}}) {
    for (const double share : {0.0, 0.003, 0.05, 0.6, 1.0}) {
      SampleRandom random(7, static_cast<std::uint64_t>(size.width), static_cast<std::uint64_t>(share * 1000));
      Image sources = map_of(size, 0);
      for (std::uint8_t& value : sources.pixels) value = random.chance(share) ? 1 : 0;
      EXPECT_EQ(squared_distances(sources), brute_distances(sources))
          << size.width << " x " << size.height << ", share " << share;
    }
  }
}

TEST(DistanceMaps, OfScribblesFallWithTheDistanceFromAnyScribbleAlsoOfTheBackground) {
  Image scribbles = map_of({200, 3}, kUnlabelled);
  at(scribbles, 10, 1) = 0;
  Image map = scribble_distance_map(scribbles);
  EXPECT_EQ(at(map, 10, 1), 255);
  EXPECT_EQ(at(map, 13, 1), 255 - static_cast<int>(std::sqrt(std::exp(1.0)) * 3));
  EXPECT_EQ(at(map, 164, 1), 255 - static_cast<int>(std::sqrt(std::exp(1.0)) * 154));
  EXPECT_EQ(at(map, 166, 1), 0) << "clipped";
}

TEST(DistanceMaps, OfClassesRiseFromTheBordersOfThePseudoLabels) {
  Image labels = map_of({60, 3}, 0);
  fill(labels, 30, 0, {30, 3}, 2);
  Image map = class_distance_map(labels);
  EXPECT_EQ(at(map, 29, 1), 0);
  EXPECT_EQ(at(map, 30, 1), 0);
  EXPECT_EQ(at(map, 34, 1), static_cast<int>(std::exp(3.0) * 4));
  EXPECT_EQ(at(map, 45, 1), 255);
  EXPECT_EQ(at(map, 0, 0), 255) << "the picture's border is none";
}

TEST(DistanceMaps, WithoutASourceHaveNoWeightForScribblesAndFullWeightForClasses) {
  EXPECT_THAT(scribble_distance_map(map_of({9, 7}, kUnlabelled)).pixels, Each(0));
  EXPECT_THAT(class_distance_map(map_of({9, 7}, 3)).pixels, Each(255));
}

TEST(DistanceMaps, NeedAPositiveLambda) {
  EXPECT_THAT(fault_of<UsageError>([] { (void)scribble_distance_map(map_of({2, 2}, 1), 0); }), HasSubstr("lambda"));
}

/// A mask with two objects on a background, one of them a single pixel.
Image two_things() {
  Image mask = map_of({64, 48}, 0);
  fill(mask, 6, 8, {24, 14}, 1);
  at(mask, 50, 40) = 2;
  return mask;
}

Image scribbles_of(const Image& mask, const ScribbleOptions& options = {}, std::uint64_t seed = 5) {
  SampleRandom random = scribble_random(seed, 0);
  return derive_scribbles(numbers_of(mask), Numbers::kClasses, options, random);
}

std::map<int, int> counts_of(const Image& map) {
  std::map<int, int> counts;
  for (const std::uint8_t value : map.pixels) ++counts[value];
  return counts;
}

TEST(Scribbles, LieInsideOfTheirRegionAndAreThin) {
  const Image mask = two_things();
  const Image scribbles = scribbles_of(mask);
  for (std::size_t i = 0; i < mask.pixels.size(); ++i) {
    if (scribbles.pixels[i] != kUnlabelled) {
      EXPECT_EQ(scribbles.pixels[i], mask.pixels[i]) << "pixel " << i;
    }
  }
  const std::map<int, int> counts = counts_of(scribbles);
  EXPECT_EQ(counts.at(2), 1) << "one pixel is all there is";
  EXPECT_GT(counts.at(1), 4);
  EXPECT_LT(counts.at(1), 24 * 14 / 5);
  EXPECT_LT(counts.at(0), 64 * 48 / 10);
  EXPECT_GT(counts.at(0), 20);
}

TEST(Scribbles, AreAsThinAsTheNeckThatTheyPass) {
  Image mask = map_of({60, 24}, 0);
  fill(mask, 4, 6, {12, 12}, 1);
  fill(mask, 44, 6, {12, 12}, 1);
  fill(mask, 16, 12, {28, 1}, 1);
  const Image scribbles = scribbles_of(mask, {.thickness = 3, .shrink = 0});
  int in_neck = 0;
  for (std::size_t i = 0; i < mask.pixels.size(); ++i) {
    if (scribbles.pixels[i] != 1) continue;
    ASSERT_EQ(mask.pixels[i], 1) << "pixel " << i;
    in_neck += i % 60 >= 16 && i % 60 < 44 ? 1 : 0;
  }
  EXPECT_EQ(in_neck, 28);
}

TEST(Scribbles, OfEachConnectedRegionAreDrawnOnce) {
  Image mask = map_of({90, 30}, 0);
  for (const std::int64_t left : {5, 35, 65}) fill(mask, left, 10, {16, 12}, 1);
  const Image scribbles = scribbles_of(mask);
  for (const std::int64_t left : {5, 35, 65}) {
    int inside = 0;
    for (std::int64_t y = 10; y < 22; ++y) {
      for (std::int64_t x = left; x < left + 16; ++x) {
        inside += scribbles.pixels[static_cast<std::size_t>(y * 90 + x)] == 1 ? 1 : 0;
      }
    }
    EXPECT_GT(inside, 2) << "thing at " << left;
  }
}

TEST(Scribbles, OfInstancesThatTouchAreDrawnOneByOne) {
  NumberMap instances{{40, 20}, std::vector<std::uint16_t>(800)};
  for (std::size_t i = 0; i < 800; ++i) instances.values[i] = i % 40 < 20 ? 300 : 70;
  SampleRandom random = scribble_random(1, 0);
  const Image scribbles = derive_scribbles(instances, Numbers::kInstances, {}, random);
  int left = 0;
  int right = 0;
  for (std::size_t i = 0; i < 800; ++i) {
    if (scribbles.pixels[i] == 1) ++(i % 40 < 20 ? left : right);
  }
  EXPECT_GT(left, 0);
  EXPECT_GT(right, 0);
  EXPECT_EQ(counts_of(scribbles).count(0), 0U);
}

TEST(Scribbles, AreAFunctionOfSeedAndIndex) {
  const Image mask = two_things();
  EXPECT_EQ(scribbles_of(mask, {}, 5).pixels, scribbles_of(mask, {}, 5).pixels);
  EXPECT_NE(scribbles_of(mask, {}, 5).pixels, scribbles_of(mask, {}, 6).pixels);
}

TEST(Scribbles, LeaveOutIgnoredRegionsAndThoseThatCoverageSpares) {
  Image mask = two_things();
  fill(mask, 0, 0, {64, 5}, kUnlabelled);
  EXPECT_GT(counts_of(scribbles_of(mask)).at(0), 0);
  EXPECT_THAT(scribbles_of(mask, {.coverage = 0}).pixels, Each(kUnlabelled));
  const int thick = counts_of(scribbles_of(mask, {.thickness = 3})).at(0);
  const int thin = counts_of(scribbles_of(mask, {.thickness = 1})).at(0);
  EXPECT_GT(thick, 2 * thin);
  EXPECT_THAT(fault_of<UsageError>([&] { (void)scribbles_of(mask, {.thickness = 4}); }), HasSubstr("thickness"));
  EXPECT_THAT(fault_of<UsageError>([&] { (void)scribbles_of(mask, {.coverage = 1.5}); }), HasSubstr("coverage"));
}

/// Light objects on a dark background, with a little noise.
Image picture_of(const Image& mask) {
  Image picture{mask.size, 3, {}};
  SampleRandom random(3);
  for (const std::uint8_t label : mask.pixels) {
    for (int channel = 0; channel < 3; ++channel) {
      picture.pixels.push_back(static_cast<std::uint8_t>(30 + 80 * label + random.between(0, 12)));
    }
  }
  return picture;
}

TEST(PseudoLabels, FromScribblesFollowTheBordersInThePicture) {
  Image mask = map_of({64, 48}, 0);
  fill(mask, 6, 8, {24, 14}, 1);
  fill(mask, 40, 20, {20, 22}, 2);
  const Image labels = watershed_labels(picture_of(mask), scribbles_of(mask));
  int wrong = 0;
  int unknown = 0;
  for (std::size_t i = 0; i < mask.pixels.size(); ++i) {
    if (labels.pixels[i] == kUnlabelled) {
      ++unknown;
    } else if (labels.pixels[i] != mask.pixels[i]) {
      ++wrong;
    }
  }
  EXPECT_LT(wrong, 80) << "of 3072 pixels, 160 of them at a border";
  EXPECT_GT(unknown, 60) << "the seam";
  EXPECT_LT(unknown, 260);
}

TEST(PseudoLabels, KeepEveryScribble) {
  const Image mask = two_things();
  const Image scribbles = scribbles_of(mask);
  const Image labels = watershed_labels(picture_of(map_of(mask.size, 0)), scribbles);
  for (std::size_t i = 0; i < mask.pixels.size(); ++i) {
    if (scribbles.pixels[i] != kUnlabelled) {
      EXPECT_EQ(labels.pixels[i], scribbles.pixels[i]);
    }
  }
}

TEST(PseudoLabels, OfOneClassAreThatClassAndOfNoScribbleNothing) {
  const Image mask = map_of({30, 20}, 4);
  const Image picture = picture_of(map_of({30, 20}, 1));
  EXPECT_THAT(watershed_labels(picture, scribbles_of(mask)).pixels, Each(4));
  EXPECT_THAT(watershed_labels(picture, map_of({30, 20}, kUnlabelled)).pixels, Each(kUnlabelled));
  EXPECT_THAT(fault_of<UsageError>([&] {
                (void)watershed_labels(picture, map_of({29, 20}, 0));
              }),
              HasSubstr("30 x 20"));
}

TEST(PseudoLabels, FromMasksAreCellsOfOneClass) {
  Image mask = map_of({32, 24}, 0);
  fill(mask, 8, 8, {16, 8}, 3);
  SampleRandom random = coarse_random(1, 0);
  EXPECT_EQ(coarse_labels(mask, {.cell = 8, .shift = 0}, random).pixels, mask.pixels) << "the mask fits the cells";
  fill(mask, 8, 8, {12, 8}, 5);  // half a cell: no class has 60 %
  Image labels = coarse_labels(mask, {.cell = 8, .shift = 0}, random);
  EXPECT_EQ(at(labels, 17, 9), kUnlabelled);
  EXPECT_EQ(at(labels, 9, 9), 5);
  SampleRandom a = coarse_random(1, 0);
  SampleRandom b = coarse_random(2, 0);
  EXPECT_NE(coarse_labels(mask, {.cell = 4, .shift = 1}, a).pixels,
            coarse_labels(mask, {.cell = 4, .shift = 1}, b).pixels);
}

TEST(PseudoLabels, OfScenesAreMostlyRight) {
  std::int64_t right = 0;
  std::int64_t known = 0;
  for (std::int64_t i = 0; i < 4; ++i) {
    const Scene scene = make_scene(1, i, {96, 96});
    for (const PseudoMethod method : {PseudoMethod::kWatershed, PseudoMethod::kCoarse}) {
      const WeakLabels labels = derive_weak_labels(scene.picture, numbers_of(scene.mask), Numbers::kClasses,
                                                   {.seed = 1, .method = method}, i);
      for (std::size_t k = 0; k < scene.mask.pixels.size(); ++k) {
        if (labels.pseudo_labels.pixels[k] == kUnlabelled) continue;
        ++known;
        right += labels.pseudo_labels.pixels[k] == scene.mask.pixels[k] ? 1 : 0;
      }
    }
  }
  EXPECT_GT(static_cast<double>(right), 0.9 * static_cast<double>(known));
  EXPECT_GT(known, 60'000);
  EXPECT_THAT(fault_of<UsageError>([] { (void)parse_pseudo_method("magic"); }), HasSubstr("magic"));
}

}  // namespace segmentation_derive_test
}  // namespace lockstep::segmentation
