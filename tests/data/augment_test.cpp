// SPDX-License-Identifier: Apache-2.0
// The effect of augmentations on boxes, points, masks and maps, and the random numbers they draw.
#include <ATen/core/ivalue.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/data/augment/augmentations.h"
#include "lockstep/data/augment/color.h"
#include "lockstep/data/augment/detection.h"
#include "lockstep/data/augment/mix.h"
#include "lockstep/data/augment/resize.h"
#include "lockstep/data/augment/to_tensor.h"
#include "lockstep/data/augment/turn.h"
#include "lockstep/data/compose.h"
#include "lockstep/data/dataset.h"

namespace lockstep {
namespace augment_test {

using ::testing::ElementsAre;

Image ramp(ImageSize size, std::int64_t channels = 1) {
  Image image{size, channels, std::vector<std::uint8_t>(static_cast<std::size_t>(size.width * size.height * channels))};
  std::iota(image.pixels.begin(), image.pixels.end(), std::uint8_t{0});
  return image;
}

Image rectangle(ImageSize size, const Box& box) {
  Image mask{size, 1, {}};
  for (std::int64_t y = 0; y < size.height; ++y) {
    for (std::int64_t x = 0; x < size.width; ++x) {
      const bool in = x >= static_cast<std::int64_t>(box.x1) && x < static_cast<std::int64_t>(box.x2) &&
                      y >= static_cast<std::int64_t>(box.y1) && y < static_cast<std::int64_t>(box.y2);
      mask.pixels.push_back(in ? 1 : 0);
    }
  }
  return mask;
}

/// The box around a mask.
Box bounds(const Image& mask) {
  Box box{1e9F, 1e9F, 0, 0};
  for (std::int64_t i = 0; i < mask.size.width * mask.size.height; ++i) {
    if (mask.pixels[static_cast<std::size_t>(i)] == 0) continue;
    const auto x = static_cast<float>(i % mask.size.width);
    const auto y = static_cast<float>(i / mask.size.width);
    box = {std::min(box.x1, x), std::min(box.y1, y), std::max(box.x2, x + 1), std::max(box.y2, y + 1)};
  }
  return box;
}

/// 20 x 10, one object with box (2, 3) - (8, 7), a mask of exactly that box, a point in its corner, and a map like the
/// mask.
AnnotatedImage picture() {
  const ImageSize size{20, 10};
  const Box box{2, 3, 8, 7};
  AnnotatedImage image{.pixels = ramp(size)};
  image.objects = {{.box = box, .area = 24, .points = {{2, 3}}, .mask = rectangle(size, box)}};
  image.maps = {{rectangle(size, box), 255}};
  return image;
}

void expect_box(const AnnotatedImage& image, const Box& box) {
  ASSERT_EQ(image.objects.size(), 1U);
  const Object& object = image.objects[0];
  EXPECT_EQ(object.box, box) << object.box.x1 << " " << object.box.y1 << " " << object.box.x2 << " " << object.box.y2;
  if (!object.mask) return;
  EXPECT_EQ(bounds(*object.mask), box);
  EXPECT_FLOAT_EQ(object.area, box.area());
}

TEST(HorizontalFlip, TurnsEverythingAround) {
  AnnotatedImage image = picture();
  HorizontalFlip::apply(image);
  EXPECT_EQ(image.pixels.decoded().pixels[0], 19);
  expect_box(image, {12, 3, 18, 7});
  EXPECT_EQ(image.objects[0].points[0], (Point{18, 3, true}));
  EXPECT_EQ(bounds(image.maps[0].image), (Box{12, 3, 18, 7}));
}

TEST(VerticalFlip, TurnsEverythingOver) {
  AnnotatedImage image = picture();
  VerticalFlip::apply(image);
  EXPECT_EQ(image.pixels.decoded().pixels[0], 180);
  expect_box(image, {2, 3, 8, 7});
  EXPECT_EQ(image.objects[0].points[0], (Point{2, 7, true}));
}

TEST(Flips, TwiceAreNone) {
  AnnotatedImage image = picture();
  HorizontalFlip::apply(image);
  VerticalFlip::apply(image);
  HorizontalFlip::apply(image);
  VerticalFlip::apply(image);
  EXPECT_EQ(image.pixels.decoded().pixels, ramp({20, 10}).pixels);
  expect_box(image, {2, 3, 8, 7});
}

TEST(Resize, ScalesMarksWithoutMixingValues) {
  AnnotatedImage image = picture();
  Resize{.size = {40, 30}}(image);
  EXPECT_EQ(image.pixels.size(), (ImageSize{40, 30}));
  expect_box(image, {4, 9, 16, 21});
  AnnotatedImage shades = picture();
  for (std::uint8_t& value : shades.maps[0].image.pixels) value = value == 0 ? 10 : 200;
  Resize{.size = {33, 7}}(shades);
  for (const std::uint8_t value : shades.maps[0].image.pixels) EXPECT_TRUE(value == 10 || value == 200) << int{value};
}

TEST(Areas, FollowTheScaleAndWhatIsLeftOfTheBox) {
  AnnotatedImage image{.pixels = ramp({20, 10})};
  image.objects = {{.box = {2, 2, 6, 6}, .area = 10}};
  Resize{.size = {40, 30}}(image);
  EXPECT_FLOAT_EQ(image.objects[0].area, 60);
  RandomResizedCrop{.size = {40, 30}}.apply(image, {8, 0, {20, 30}});
  EXPECT_FLOAT_EQ(image.objects[0].area, 60);
}

TEST(RandomResizedCrop, CutsAndScalesMarks) {
  AnnotatedImage image = picture();
  RandomResizedCrop{.size = {20, 16}}.apply(image, {4, 2, {10, 8}});
  expect_box(image, {0, 2, 8, 10});
  EXPECT_FALSE(image.objects[0].points[0].visible);
}

TEST(RandomResizedCrop, DrawsPartsInsideWithTheWantedAreaAndShape) {
  const RandomResizedCrop crop{.min_scale = 0.2, .max_scale = 0.5};
  SampleRandom random(1);
  for (int i = 0; i < 500; ++i) {
    const Region region = crop.parameters({640, 480}, random);
    EXPECT_GE(region.left, 0);
    EXPECT_GE(region.top, 0);
    EXPECT_LE(region.left + region.size.width, 640);
    EXPECT_LE(region.top + region.size.height, 480);
    const double area = static_cast<double>(region.size.width * region.size.height) / (640.0 * 480.0);
    EXPECT_GT(area, 0.195);
    EXPECT_LT(area, 0.505);
    const double ratio = static_cast<double>(region.size.width) / static_cast<double>(region.size.height);
    EXPECT_GT(ratio, 0.74);
    EXPECT_LT(ratio, 1.35);
  }
}

TEST(RandomResizedCrop, FallsBackToTheMiddle) {
  const RandomResizedCrop crop{.min_scale = 0.9, .max_scale = 1.0};
  SampleRandom random(1);
  EXPECT_EQ(crop.parameters({1000, 100}, random), (Region{433, 0, {133, 100}}));
  EXPECT_EQ(crop.parameters({100, 1000}, random), (Region{0, 433, {100, 133}}));
}

TEST(CenterCrop, GivesSmallPicturesABorder) {
  AnnotatedImage image = picture();
  CenterCrop{.size = {10, 14}, .fill = {9, 9, 9}}(image);
  EXPECT_EQ(image.pixels.decoded().pixels[0], 9);
  expect_box(image, {0, 5, 3, 9});
  EXPECT_EQ(image.maps[0].image.pixels[0], 255);
}

TEST(RandomCrop, CoversEveryPlaceOfThePaddedPicture) {
  const RandomCrop crop{.size = {20, 10}, .padding = 2};
  SampleRandom random(1);
  std::set<std::int64_t> lefts;
  std::set<std::int64_t> tops;
  for (int i = 0; i < 300; ++i) {
    const Region region = crop.parameters({20, 10}, random);
    lefts.insert(region.left);
    tops.insert(region.top);
  }
  EXPECT_THAT(lefts, ElementsAre(-2, -1, 0, 1, 2));
  EXPECT_THAT(tops, ElementsAre(-2, -1, 0, 1, 2));
}

TEST(Rotation, ByAQuarterMovesMarksAsPixels) {
  AnnotatedImage image{.pixels = ramp({10, 10})};
  image.objects = {{.box = {1, 2, 4, 8}, .area = 18, .mask = rectangle({10, 10}, {1, 2, 4, 8})}};
  Rotation{}.apply(image, 90);
  expect_box(image, {2, 6, 8, 9});
  EXPECT_EQ(image.pixels.decoded().pixels[0], 9);
}

TEST(Rotation, PutsAnUprightBoxAroundATurnedOne) {
  AnnotatedImage image{.pixels = ramp({100, 100})};
  image.objects = {{.box = {40, 40, 60, 60}, .area = 400}};
  Rotation{}.apply(image, 45);
  EXPECT_NEAR(image.objects[0].box.width(), 20 * std::sqrt(2.0), 1e-4);
  EXPECT_NEAR(image.objects[0].box.x1 + image.objects[0].box.x2, 100, 1e-4);
}

TEST(ColorJitter, DrawsEveryOrderAndStaysInItsRange) {
  const ColorJitter jitter{.brightness = 0.4, .hue = 0.1};
  SampleRandom random(1);
  std::set<std::array<int, 4>> orders;
  for (int i = 0; i < 500; ++i) {
    const auto drawn = jitter.parameters(random);
    orders.insert(drawn.order);
    EXPECT_GE(*drawn.values[0], 0.6);
    EXPECT_LE(*drawn.values[0], 1.4);
    EXPECT_FALSE(drawn.values[1]);
    EXPECT_LE(std::abs(*drawn.values[3]), 0.1);
  }
  EXPECT_EQ(orders.size(), 24U);
}

TEST(ZoomOut, LaysThePictureOnACanvas) {
  AnnotatedImage image = picture();
  ZoomOut{.fill = {7, 7, 7}}.apply(image, {-5, -3, {40, 20}});
  EXPECT_EQ(image.pixels.decoded().pixels[0], 7);
  EXPECT_EQ(image.pixels.decoded().pixels[3 * 40 + 5], 0);
  expect_box(image, {7, 6, 13, 10});
  SampleRandom random(1);
  for (int i = 0; i < 200; ++i) {
    const Region canvas = ZoomOut{}.parameters({20, 10}, random);
    EXPECT_LE(canvas.left, 0);
    EXPECT_LE(canvas.top, 0);
    EXPECT_GE(canvas.left + canvas.size.width, 20);
    EXPECT_GE(canvas.top + canvas.size.height, 10);
  }
}

TEST(IoUCrop, KeepsAnObjectAndDropsThoseWhoseMiddleIsOutside) {
  AnnotatedImage image = picture();
  image.objects.push_back({.box = {15, 5, 19, 9}});
  SampleRandom random(1);
  int crops = 0;
  for (int i = 0; i < 100; ++i) {
    AnnotatedImage copy = image;
    const auto region = IoUCrop{}.parameters(copy, random);
    if (!region) continue;
    IoUCrop::apply(copy, *region);
    EXPECT_GE(copy.objects.size(), 1U);
    EXPECT_EQ(copy.pixels.size(), region->size);
    ++crops;
  }
  EXPECT_GT(crops, 50);
  IoUCrop::apply(image, {0, 0, {10, 10}});
  expect_box(image, {2, 3, 8, 7});
}

TEST(SanitizeBoxes, DropsWhatIsTooSmall) {
  AnnotatedImage image = picture();
  image.objects.push_back({.box = {3, 3, 3, 9}});
  image.objects.push_back({.box = {3, 3, 9, 3.5F}});
  SanitizeBoxes{}(image);
  expect_box(image, {2, 3, 8, 7});
}

class Pictures final : public ImageSource {
 public:
  [[nodiscard]] std::int64_t size() const override { return 3; }
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override {
    AnnotatedImage image{.pixels =
                             Image{{8, 8}, 1, std::vector<std::uint8_t>(64, static_cast<std::uint8_t>(50 * index))}};
    image.objects = {{.box = {2, 2, 6, 6}, .label = index, .area = 16}};
    return image;
  }
};

TEST(Mosaic, PutsFourPicturesIntoQuarters) {
  const Mosaic mosaic{.source = std::make_shared<Pictures>(),
                      .shorter = 8,
                      .degrees = 0,
                      .translate = 0,
                      .min_scale = 1,
                      .max_scale = 1};
  AnnotatedImage image = Pictures().get(2);
  SampleRandom random(3);
  mosaic(image, random);
  EXPECT_EQ(image.pixels.size(), (ImageSize{16, 16}));
  ASSERT_EQ(image.objects.size(), 4U);
  EXPECT_EQ(image.objects[3].box, (Box{10, 10, 14, 14}));
  EXPECT_EQ(image.objects[0].label, 2);
  for (const Object& object : image.objects) {
    const auto at = static_cast<std::size_t>(object.box.y1 * 16 + object.box.x1);
    EXPECT_EQ(image.pixels.decoded().pixels[at], 50 * object.label);
  }
}

/// The same samples, with every image except the last truncated.
class TornPictures final : public ImageSource {
 public:
  [[nodiscard]] std::int64_t size() const override { return whole_.size(); }
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override {
    if (index != 2) throw DataError("torn " + std::to_string(index));
    return whole_.get(index);
  }

 private:
  Pictures whole_;
};

TEST(Mosaic, DrawsAnotherPictureInPlaceOfATornOneWhereBadSamplesAreLeftOut) {
  const auto torn = std::make_shared<TornPictures>();
  const Mosaic mosaic{.source = torn, .shorter = 8, .degrees = 0, .translate = 0, .min_scale = 1, .max_scale = 1};
  const BlendPictures blend{.source = torn, .p = 1};
  std::vector<std::vector<std::uint8_t>> made;
  std::vector<BadSample> left_out;
  for (int i = 0; i < 2; ++i) {
    SampleContext context(3, 1, 2);
    context.left_out = &left_out;
    AnnotatedImage image = Pictures().get(2);
    mosaic(image, context);
    EXPECT_EQ(image.objects.size(), 4U);
    blend(image, context);
    made.push_back(image.pixels.decoded().pixels);
  }
  EXPECT_EQ(made[0], made[1]) << "drawn by seed, epoch and index";
  ASSERT_FALSE(left_out.empty());
  EXPECT_EQ(left_out.front().what, "torn " + std::to_string(left_out.front().index));
  SampleContext strict(3, 1, 2);
  AnnotatedImage image = Pictures().get(2);
  EXPECT_THROW(mosaic(image, strict), DataError);
}

TEST(BlendPictures, KeepsTheObjectsOfBoth) {
  const BlendPictures blend{.source = std::make_shared<Pictures>(), .min_share = 0.5, .max_share = 0.5, .p = 1};
  AnnotatedImage image = Pictures().get(2);
  SampleRandom random(3);
  blend(image, random);
  ASSERT_EQ(image.objects.size(), 2U);
  EXPECT_EQ(image.pixels.decoded().pixels[0], (100 + 50 * image.objects[1].label) / 2);
  image.maps.emplace_back();
  EXPECT_THROW(blend(image, random), UsageError);
}

TEST(RandomErasing, FillsARectangleOfEveryChannel) {
  Sample sample{at::ones({2, 8, 8}), {}, {}};
  RandomErasing{}.apply(sample, {2, 3, {4, 2}});
  EXPECT_EQ(sample.data.sum().item<float>(), 128 - 16);
  EXPECT_EQ(sample.data[1][3][2].item<float>(), 0.0F);
  EXPECT_EQ(sample.data[1][3][6].item<float>(), 1.0F);
}

TEST(Augmentations, OfAViewLeaveItsMemoryAlone) {
  const Image memory = ramp({20, 10});
  const auto run = [&](const auto& step) {
    AnnotatedImage image{.pixels = view_of(memory)};
    step(image);
    EXPECT_EQ(memory.pixels, ramp({20, 10}).pixels);
  };
  run([](AnnotatedImage& image) { HorizontalFlip::apply(image); });
  run([](AnnotatedImage& image) { GaussianBlur{}.apply(image, 1.0); });
  run([](AnnotatedImage& image) { Rotation{}.apply(image, 30); });
  run([](AnnotatedImage& image) { adjust_contrast(image.pixels.decoded(), 2.0); });
}

// MixUp and CutMix as the last step of a transform and as a collate function.

template <class Mix>
std::vector<Sample> samples(const Mix& mix, std::uint64_t seed) {
  std::vector<Sample> made;
  for (std::int64_t i = 0; i < 4; ++i) {
    Sample sample{at::full({1, 8, 8}, static_cast<double>(i)), at::full({}, i, c10::ScalarType::Long), {}};
    SampleRandom random(seed, 0, static_cast<std::uint64_t>(i));
    mix(sample, random);
    made.push_back(std::move(sample));
  }
  return made;
}

TEST(MixUp, BlendsEachSampleAndItsTargetWithItsNeighbour) {
  const MixUp mix{.classes = 4, .alpha = 1.0};
  const Batch batch = mix(samples(mix, 5));
  const float share = batch.target[2][2].item<float>();
  EXPECT_GT(share, 0.0F);
  EXPECT_LT(share, 1.0F);
  EXPECT_NEAR(batch.target[2][1].item<float>(), 1 - share, 1e-6);
  EXPECT_FLOAT_EQ(batch.data[2][0][0][0].item<float>(), 2 * share + 1 * (1 - share));
  EXPECT_NEAR(batch.data[0][0][0][0].item<float>(), 3 * (1 - share), 1e-6);
}

TEST(MixUp, DrawsItsShareFromBeta) {
  double sum = 0;
  double squares = 0;
  constexpr int kBatches = 2000;
  const MixUp mix{.classes = 4, .alpha = 0.4};
  for (std::uint64_t seed = 0; seed < kBatches; ++seed) {
    const double share = mix(samples(mix, seed)).target[2][2].item<float>();
    sum += share;
    squares += share * share;
  }
  const double mean = sum / kBatches;
  EXPECT_NEAR(mean, 0.5, 0.03);
  EXPECT_NEAR(squares / kBatches - mean * mean, 1 / (4 * (2 * 0.4 + 1)), 0.015);
}

TEST(CutMix, PutsARectangleOfTheNeighbourIn) {
  const CutMix mix{.classes = 4};
  const Batch batch = mix(samples(mix, 1));
  const float share = batch.target[3][3].item<float>();
  std::int64_t own = 0;
  for (std::int64_t i = 0; i < 64; ++i) {
    const float value = batch.data.data_ptr<float>()[3 * 64 + i];
    EXPECT_TRUE(value == 3.0F || value == 2.0F);
    own += value == 3.0F ? 1 : 0;
  }
  EXPECT_FLOAT_EQ(share, static_cast<float>(own) / 64);
  EXPECT_FLOAT_EQ(batch.target[3][2].item<float>(), 1 - share);
  EXPECT_LT(own, 64);
}

TEST(MixUp, ThatIsNotToMixStillGivesSoftTargets) {
  const MixUp mix{.classes = 5, .p = 0};
  const Batch batch = mix(samples(mix, 1));
  EXPECT_EQ(batch.target[3][3].item<float>(), 1.0F);
  EXPECT_EQ(batch.data[3][0][0][0].item<float>(), 3.0F);
}

TEST(MixUp, SaysWhatIsMissing) {
  const MixUp mix{.classes = 4};
  std::vector<Sample> undrawn = samples(mix, 1);
  for (Sample& sample : undrawn) sample.extra.reset();
  EXPECT_THROW((void)mix(undrawn), UsageError);
  const MixUp few{.classes = 3};
  EXPECT_THROW((void)few(samples(few, 1)), DataError);
}

}  // namespace augment_test

namespace augmentations_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Augmentations that are selected by name, and chains of them.

std::string fault_of(std::string_view text) {
  try {
    (void)parse_augmentation(text);
  } catch (const UsageError& fault) {
    return fault.what();
  }
  return "no UsageError";
}

AnnotatedImage picture() { return {.pixels = Image{{4, 2}, 1, {0, 1, 2, 3, 4, 5, 6, 7}}}; }

TEST(Augmentations, RunInOrderAsAStepOfCompose) {
  Augmentations chain;
  chain.add(parse_augmentation("horizontal_flip p=1"));
  chain.add(make_augmentation("center_crop", {{"size", {2, 2}}}));
  const Compose compose{
      chain, [](AnnotatedImage& image) { EXPECT_THAT(image.pixels.decoded().pixels, ElementsAre(2, 1, 6, 5)); }};
  SampleContext context(0, 0, 0);
  (void)compose(picture(), context);
}

TEST(Augmentations, EachRunOnAPictureWithTheirDefaults) {
  for (const std::string& name : augmentation_names()) {
    AnnotatedImage image{.pixels = Image{{64, 48}, 3, std::vector<std::uint8_t>(64 * 48 * 3, 9)}};
    image.objects = {{.box = {8, 8, 40, 40}}};
    SampleContext context(1, 2, 3);
    make_augmentation(name).run(image, context);
    EXPECT_GT(image.pixels.size().width, 0) << name;
  }
}

TEST(Augmentations, SayWhichNameIsWrong) {
  EXPECT_THAT(fault_of("horizontal_flop"), HasSubstr("did you mean 'horizontal_flip'?"));
  EXPECT_THAT(fault_of("rotation degree=3"), HasSubstr("did you mean 'degrees'?"));
  EXPECT_THAT(fault_of("resize size=3"), HasSubstr("size of augmentation resize takes 2 values, not 1"));
  EXPECT_THAT(fault_of("resize size=3,x"), HasSubstr("'x' is not a number"));
  EXPECT_THAT(fault_of("resize size"), HasSubstr("'size' is not a setting"));
}

}  // namespace augmentations_test
}  // namespace lockstep
