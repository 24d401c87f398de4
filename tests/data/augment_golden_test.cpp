// SPDX-License-Identifier: Apache-2.0
// Augmentations with given parameters against torchvision (golden/make_augmented.py): most give its bits, rotations and
// blurs are near.
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "data/hash.h"
#include "lockstep/data/augment/color.h"
#include "lockstep/data/augment/resize.h"
#include "lockstep/data/augment/to_tensor.h"
#include "lockstep/data/augment/turn.h"

namespace lockstep {
namespace augment_golden_test {

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden" / name;
}

AnnotatedImage picture() { return {.pixels = read_image(golden("part_444.jpg"), ColorMode::kRgb)}; }

nlohmann::json entries() {
  std::ifstream file(golden("augmented.json"));
  return nlohmann::json::parse(file);
}

using Numbers = std::vector<double>;

std::int64_t whole(double number) { return std::llround(number); }

ImageSize size_of(const Numbers& n, std::size_t at) { return {whole(n[at]), whole(n[at + 1])}; }

using Operation = void (*)(AnnotatedImage&, const Numbers&);

const std::map<std::string, Operation>& operations() {
  static const std::map<std::string, Operation> kAll{
      {"resized_crop",
       [](AnnotatedImage& image, const Numbers& n) {
         RandomResizedCrop{.size = size_of(n, 4)}.apply(image, {whole(n[0]), whole(n[1]), size_of(n, 2)});
       }},
      {"resize_shorter",
       [](AnnotatedImage& image, const Numbers& n) {
         ResizeShorter{.shorter = whole(n[0]), .longest = whole(n[1])}(image);
       }},
      {"center_crop", [](AnnotatedImage& image, const Numbers& n) { CenterCrop{.size = size_of(n, 0)}(image); }},
      {"pad",
       [](AnnotatedImage& image, const Numbers& n) {
         Pad{whole(n[0]), whole(n[1]), whole(n[2]), whole(n[3]), {10, 20, 30}}(image);
       }},
      {"hflip", [](AnnotatedImage& image, const Numbers&) { HorizontalFlip::apply(image); }},
      {"vflip", [](AnnotatedImage& image, const Numbers&) { VerticalFlip::apply(image); }},
      {"gray", [](AnnotatedImage& image, const Numbers& n) { Gray{.channels = whole(n[0])}(image); }},
      {"brightness", [](AnnotatedImage& image, const Numbers& n) { adjust_brightness(image.pixels.decoded(), n[0]); }},
      {"contrast", [](AnnotatedImage& image, const Numbers& n) { adjust_contrast(image.pixels.decoded(), n[0]); }},
      {"saturation", [](AnnotatedImage& image, const Numbers& n) { adjust_saturation(image.pixels.decoded(), n[0]); }},
      {"hue", [](AnnotatedImage& image, const Numbers& n) { adjust_hue(image.pixels.decoded(), n[0]); }},
      {"rotate", [](AnnotatedImage& image, const Numbers& n) { Rotation{}.apply(image, n[0]); }},
      {"affine",
       [](AnnotatedImage& image, const Numbers& n) {
         Affine{}.apply(image, {n[0], n[1], n[2], n[3], n[4], n[5]});
       }},
      {"blur", [](AnnotatedImage& image, const Numbers& n) { GaussianBlur{.kernel = whole(n[0])}.apply(image, n[1]); }},
  };
  return kAll;
}

TEST(Augmentations, GiveTorchvisionsBits) {
  int compared = 0;
  for (const auto& expected : entries()) {
    if (!expected.contains("fnv1a")) continue;
    AnnotatedImage image = picture();
    operations().at(expected["op"])(image, expected["arguments"].get<Numbers>());
    const Image& pixels = image.pixels.decoded();
    EXPECT_EQ(pixels.size, (ImageSize{expected["size"][0], expected["size"][1]})) << expected.dump();
    EXPECT_EQ(test::fnv1a(pixels.pixels.data(), pixels.pixels.size()), expected["fnv1a"].get<std::string>())
        << expected.dump();
    ++compared;
  }
  EXPECT_GT(compared, 30);
}

// OpenCV interpolates between 1/32 of a pixel, Pillow exactly; at the border of a turned picture Pillow mixes nothing
// in.
TEST(Augmentations, ThatInterpolateAreNearTorchvisions) {
  const std::map<std::string, double> most{{"rotate", 1.5}, {"affine", 1.5}, {"blur", 0.5}};
  for (const auto& expected : entries()) {
    if (!expected.contains("picture")) continue;
    AnnotatedImage image = picture();
    operations().at(expected["op"])(image, expected["arguments"].get<Numbers>());
    const Image& result = image.pixels.decoded();
    const Image wanted = read_image(golden(expected["picture"]), ColorMode::kRgb);
    ASSERT_EQ(result.size, wanted.size);
    double sum = 0;
    int worst = 0;
    for (std::size_t i = 0; i < result.pixels.size(); ++i) {
      const int difference = std::abs(int{result.pixels[i]} - int{wanted.pixels[i]});
      sum += difference;
      worst = std::max(worst, difference);
    }
    EXPECT_LT(sum / static_cast<double>(result.pixels.size()), most.at(expected["op"])) << expected.dump();
    EXPECT_LE(worst, expected["op"] == "blur" ? 1 : 255);
  }
}

TEST(Augmentations, NormaliseToTorchvisionsValues) {
  const nlohmann::json expected = entries().back();
  AnnotatedImage image = picture();
  SampleContext context(0, 0, 0);
  const at::Tensor tensor = ToTensor{.normalize = Normalize{}}(image, context).data;
  const auto places = expected["places"].get<std::vector<std::array<std::int64_t, 3>>>();
  const auto values = expected["values"].get<Numbers>();
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto [channel, y, x] = places[i];
    EXPECT_EQ(tensor.data_ptr<float>()[(channel * 75 + y) * 93 + x], static_cast<float>(values[i]));
  }
  double sum = 0;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) sum += tensor.data_ptr<float>()[i];
  EXPECT_NEAR(sum, expected["sum"].get<double>(), 1e-6);
}

}  // namespace augment_golden_test
}  // namespace lockstep
