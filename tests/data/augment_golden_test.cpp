// SPDX-License-Identifier: Apache-2.0
// Augmentations and resizing against torchvision and Pillow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "data/hash.h"
#include "data/pixel_kernel.h"
#include "lockstep/base/error.h"
#include "lockstep/data/augment/color.h"
#include "lockstep/data/augment/resize.h"
#include "lockstep/data/augment/to_tensor.h"
#include "lockstep/data/augment/turn.h"
#include "lockstep/data/resample.h"

namespace lockstep {
namespace augment_golden_test {

// Augmentations with given parameters against torchvision (golden/make_augmented.py): most match bit for bit; rotations
// and blurs are close.

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

// OpenCV interpolates in steps of 1/32 of a pixel, Pillow exactly; Pillow does not blend at the border of a rotated
// image.
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

namespace resample_test {

// Resampling against Pillow, bit for bit (golden/make_resampled.py), and the kernels against plain loops, on every
// instruction set of this processor.

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden" / name;
}

Image noise(ImageSize size, std::int64_t channels) {
  std::mt19937 draw(3);
  Image image{size, channels, {}};
  for (std::int64_t i = 0; i < size.width * size.height * channels; ++i) {
    image.pixels.push_back(static_cast<std::uint8_t>(draw() >> 8));
  }
  return image;
}

/// Runs `check` with each instruction set that this processor supports.
template <class Check>
void on_every_instruction_set(const Check& check) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::GetChosenTarget().Update(target);
    SCOPED_TRACE(hwy::TargetName(target));
    check();
  }
  hwy::GetChosenTarget().DeInit();
}

Interpolation way_of(const std::string& name) {
  if (name == "nearest") return Interpolation::kNearest;
  return name == "bilinear" ? Interpolation::kBilinear : Interpolation::kBicubic;
}

TEST(Resample, GivesPillowsBits) {
  std::ifstream file(golden("resampled.json"));
  const auto entries = nlohmann::json::parse(file);
  on_every_instruction_set([&] {
    for (const auto& expected : entries) {
      const std::string name = expected["file"];
      const Image image = read_image(golden(name), name == "part_gray.jpg" ? ColorMode::kGray : ColorMode::kRgb);
      const auto part = expected["part"].get<std::array<float, 4>>();
      const auto size = expected["size"].get<std::array<std::int64_t, 2>>();
      const Image result =
          resample(view_of(image), {part[0], part[1], part[2], part[3]}, {size[0], size[1]}, way_of(expected["way"]));
      EXPECT_EQ(test::fnv1a(result.pixels.data(), result.pixels.size()), expected["fnv1a"].get<std::string>())
          << expected.dump();
    }
  });
}

TEST(Resample, OfAViewSeesItsOwnRowsOnly) {
  const Image whole = noise({50, 40}, 3);
  Pixels part(whole);
  part.crop({7, 5, {30, 20}}, {30, 20});
  Pixels view(view_of(whole));
  view.crop({7, 5, {30, 20}}, {30, 20});
  const Image expected = resample(part.view(), {13, 11});
  EXPECT_EQ(resample(view.view(), {13, 11}).pixels, expected.pixels);
}

TEST(Resample, RefusesWhatIsNoPart) {
  const Image image = noise({4, 4}, 1);
  EXPECT_THROW((void)resample(view_of(image), {0, 0, 5, 4}, {2, 2}), UsageError);
  EXPECT_THROW((void)resample(view_of(image), {1, 0, 1, 4}, {2, 2}), UsageError);
  EXPECT_THROW((void)resample(view_of(image), {0, 2}), UsageError);
}

TEST(PixelKernel, NormalisesAsTorchDoes) {
  on_every_instruction_set([] {
    for (const std::int64_t channels : {1, 3}) {
      for (const std::int64_t width : {1, 15, 16, 37}) {
        const Image image = noise({width, 3}, channels);
        const data::FloatRule rule{{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};
        std::vector<float> floats(image.pixels.size() + 1, -7.0F);
        data::to_float_planes(view_of(image), rule, floats.data());
        EXPECT_EQ(floats.back(), -7.0F);
        for (std::int64_t i = 0; i < width * 3 * channels; ++i) {
          const std::int64_t channel = i % channels;
          const float plain = static_cast<float>(image.pixels[i]) / 255.0F;
          ASSERT_EQ(floats[channel * width * 3 + i / channels], (plain - rule.mean[channel]) / rule.deviation[channel]);
        }
      }
    }
  });
}

TEST(PixelKernel, TurnsRowsAround) {
  on_every_instruction_set([] {
    for (const std::int64_t channels : {1, 3}) {
      for (const std::int64_t width : {1, 2, 16, 45}) {
        const Image image = noise({width, 1}, channels);
        std::vector<std::uint8_t> row = image.pixels;
        data::mirror_row(row.data(), width, channels);
        for (std::int64_t i = 0; i < width * channels; ++i) {
          ASSERT_EQ(row[i], image.pixels[(width - 1 - i / channels) * channels + i % channels]);
        }
      }
    }
  });
}

/// As the PNG standard defines it.
int nearest_of(int left, int up, int corner) {
  const int estimate = left + up - corner;
  const int to_left = std::abs(estimate - left);
  const int to_up = std::abs(estimate - up);
  const int to_corner = std::abs(estimate - corner);
  if (to_left <= to_up && to_left <= to_corner) return left;
  return to_up <= to_corner ? up : corner;
}

TEST(PixelKernel, UndoesPaethAndLeavesTheNextRowAlone) {
  on_every_instruction_set([] {
    for (const int channels : {3, 4}) {
      for (const std::int64_t width : {1, 2, 5, 40}) {
        const auto bytes = static_cast<std::size_t>(width * channels);
        std::vector<std::uint8_t> row = noise({width + 8, 1}, channels).pixels;
        const std::vector<std::uint8_t> above = noise({width + 8, 2}, channels).pixels;
        std::vector<std::uint8_t> expected = row;
        for (std::size_t i = 0; i < bytes; ++i) {
          const bool first = i < static_cast<std::size_t>(channels);
          const int left = first ? 0 : expected[i - channels];
          const int corner = first ? 0 : above[i - channels];
          expected[i] = static_cast<std::uint8_t>(expected[i] + nearest_of(left, above[i], corner));
        }
        data::undo_paeth(row.data(), above.data(), bytes, channels);
        ASSERT_EQ(row, expected) << channels << " channels, " << width << " pixels";
      }
    }
  });
}

TEST(PixelKernel, WeighsColorsInFixedPoint) {
  on_every_instruction_set([] {
    const Image image = noise({53, 1}, 3);
    std::array<std::uint8_t, 54> gray{};
    data::rgb_to_gray(image.pixels.data(), 53, gray.data());
    EXPECT_EQ(gray.back(), 0);
    for (std::size_t i = 0; i < 53; ++i) {
      const std::uint8_t* rgb = image.pixels.data() + 3 * i;
      ASSERT_EQ(gray[i], (rgb[0] * 19595U + rgb[1] * 38470U + rgb[2] * 7471U + 0x8000U) >> 16);
    }
  });
}

}  // namespace resample_test
}  // namespace lockstep
