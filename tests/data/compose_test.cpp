// SPDX-License-Identifier: Apache-2.0
// Compose takes every kind of step; image_dataset() makes samples in the batch's own memory.
#include "lockstep/data/compose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "lockstep/base/error.h"
#include "lockstep/data/augment/to_tensor.h"
#include "lockstep/data/augment/turn.h"
#include "lockstep/data/image_dataset.h"

namespace lockstep {
namespace compose_test {

using ::testing::ElementsAre;

class Ramps final : public ImageSource {
 public:
  [[nodiscard]] std::int64_t size() const override { return 5; }
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override {
    AnnotatedImage image;
    const auto shade = static_cast<std::uint8_t>(51 * index);
    image.pixels = Image{{2, 1}, 1, {0, shade}};
    image.label = index;
    return image;
  }
};

struct Darken {
  std::uint8_t by = 1;
  void operator()(AnnotatedImage& image) const {
    for (std::uint8_t& value : image.pixels.decoded().pixels) value = static_cast<std::uint8_t>(value / by);
  }
};

std::vector<float> values(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), tensor.data_ptr<float>() + tensor.numel()};
}

TEST(Compose, ChainsClassesAndLambdasByValueAndByReference) {
  const Compose chain{Darken{2},
                      [](AnnotatedImage image) {
                        image.pixels.decoded().pixels[0] = 255;
                        return image;
                      },
                      [](const AnnotatedImage& image) { EXPECT_EQ(image.label, 1); },
                      ToTensor{},
                      [](Sample sample) {
                        sample.data.mul_(2);
                        return sample;
                      },
                      [](Sample& sample, SampleContext& context) { sample.extra = context.index; }};
  SampleContext context(0, 0, 1);
  const Sample sample = chain(Ramps().get(1), context);
  EXPECT_THAT(values(sample.data), ElementsAre(2.0F, 25 * 2 / 255.0F));
  EXPECT_EQ(std::any_cast<std::int64_t>(sample.extra), 1);
  EXPECT_EQ(sample.target.item<std::int64_t>(), 1);
}

TEST(Compose, IsItselfAStep) {
  const Compose inner{Darken{5}, HorizontalFlip{.p = 1.0}};
  const Compose chain{inner, ToTensor{}};
  SampleContext context(0, 0, 5);
  EXPECT_THAT(values(chain(Ramps().get(5), context).data), ElementsAre(51 / 255.0F, 0.0F));
}

TEST(Compose, DrawsFromTheSamplesOwnRandomNumbers) {
  std::vector<double> drawn;
  const Compose chain{[&](AnnotatedImage&, SampleRandom& random) { drawn.push_back(random.uniform()); },
                      [&](AnnotatedImage&, SampleContext& context) { drawn.push_back(context.random.uniform()); }};
  SampleContext context(7, 1, 3);
  (void)chain(AnnotatedImage{}, context);
  SampleRandom expected(7, 1, 3);
  for (const double value : drawn) EXPECT_EQ(value, expected.uniform());
  EXPECT_EQ(drawn.size(), 2U);
}

TEST(ImageDataset, GivesASampleForEachPicture) {
  const auto dataset = image_dataset(std::make_shared<Ramps>(), Compose{ToTensor{}});
  EXPECT_EQ(dataset->size(), 5);
  SampleContext context(0, 0, 2);
  const Sample sample = dataset->get(2, context);
  EXPECT_THAT(sample.data.sizes(), ElementsAre(1, 1, 2));
  EXPECT_THAT(values(sample.data), ElementsAre(0.0F, 0.4F));
  EXPECT_EQ(sample.target.item<std::int64_t>(), 2);
}

TEST(ImageDataset, WritesIntoTheRowOfTheBatch) {
  std::array<float, 2> row{};
  std::int64_t label = 0;
  const SampleSpec spec{.data_shape = {1, 1, 2}, .target_shape = {}, .target_type = c10::ScalarType::Long};
  SampleContext context(0, 0, 4);
  context.spec = &spec;
  context.slot = {row.data(), &label};
  const auto dataset = image_dataset(std::make_shared<Ramps>(), Compose{ToTensor{}});
  (void)dataset->get(4, context);
  EXPECT_THAT(row, ElementsAre(0.0F, 0.8F));
  EXPECT_EQ(label, 4);
}

TEST(ToTensor, NormalisesInTheSamePassWithTheSameBits) {
  Image image{{5, 3}, 3, {}};
  for (int i = 0; i < 45; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i * 37));
  AnnotatedImage first{.pixels = image};
  AnnotatedImage second{.pixels = image};
  SampleContext context(0, 0, 0);
  const Sample fused = ToTensor{.normalize = Normalize{}}(first, context);
  const Sample separate = Normalize{}(ToTensor{}(second, context));
  EXPECT_EQ(values(fused.data), values(separate.data));
  EXPECT_FALSE(fused.target.defined());
}

TEST(ToTensor, RefusesOtherNumbersOfChannels) {
  AnnotatedImage image{.pixels = Image{{4, 4}, 2, std::vector<std::uint8_t>(32)}};
  SampleContext context(0, 0, 0);
  EXPECT_THROW((void)ToTensor{}(image, context), UsageError);
}

TEST(ToTensor, TakesTheTargetThatItIsTold) {
  AnnotatedImage image{.pixels = Image{{10, 20}, 1, std::vector<std::uint8_t>(200)}};
  image.objects = {{.box = {1, 2, 5, 12}, .label = 3, .crowd = true, .area = 40}};
  image.maps = {{Image{{10, 20}, 1, std::vector<std::uint8_t>(200, 7)}}};
  SampleContext context(0, 0, 0);
  const Sample map = ToTensor{.target = MapTarget{}}(image, context);
  EXPECT_THAT(map.target.sizes(), ElementsAre(20, 10));
  EXPECT_EQ(map.target.sum().item<std::int64_t>(), 1400);
  const Sample boxes = ToTensor{.target = DetectionTarget{.centered = true}}(image, context);
  const auto& found = std::any_cast<const Detections&>(boxes.extra);
  EXPECT_THAT(values(found.boxes), ElementsAre(0.3F, 0.35F, 0.4F, 0.5F));
  EXPECT_EQ(found.labels.item<std::int64_t>(), 3);
  EXPECT_TRUE(found.crowd.item<bool>());
  EXPECT_THROW((void)ToTensor{.target = ClassTarget{}}(image, context), DataError);
}

}  // namespace compose_test
}  // namespace lockstep
