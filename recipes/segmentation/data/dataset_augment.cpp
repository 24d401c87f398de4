// SPDX-License-Identifier: Apache-2.0
#include "segmentation/data/dataset_augment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lockstep/base/error.h"
#include "lockstep/data/augment/color.h"
#include "lockstep/data/augment/crop.h"
#include "lockstep/data/augment/resize.h"
#include "lockstep/data/augment/turn.h"

namespace lockstep::segmentation {
namespace {

constexpr Color kMeanColor{124, 116, 104};  // ImageNet's mean in 0 .. 255

void check_augment(const AugmentOptions& options) {
  const auto share = [](const char* name, double value) {
    if (!(value >= 0 && value <= 1)) throw UsageError(fmt::format("{} is {}, must be 0 .. 1", name, value));
  };
  share("rotate_prob", options.rotate_prob);
  share("blur_prob", options.blur_prob);
  share("flip_prob", options.flip_prob);
  share("photometric_prob", options.photometric_prob);
  if (options.crop < 1 || options.crop > 8192) {
    throw UsageError(fmt::format("crop is {} pixels, must be 1 .. 8192", options.crop));
  }
  if (!(options.scale_min >= 0.05 && options.scale_max >= options.scale_min && options.scale_max <= 20)) {
    throw UsageError(fmt::format("scales from {} to {}: they must be in ascending order, within 0.05 .. 20",
                                 options.scale_min, options.scale_max));
  }
  if (!(options.rotate_degrees >= 0 && options.rotate_degrees <= 180)) {
    throw UsageError(fmt::format("rotate_degrees is {}, must be 0 .. 180", options.rotate_degrees));
  }
}

/// The border around a square of `side` pixels that can enter the square when it is rotated about its centre.
std::int64_t border_for(std::int64_t side, double degrees) {
  const double turn = std::abs(degrees) * std::numbers::pi / 180.0;
  const double seen = static_cast<double>(side) * (std::abs(std::cos(turn)) + std::abs(std::sin(turn)));
  return static_cast<std::int64_t>(std::ceil((seen - static_cast<double>(side)) / 2.0)) + 1;
}

}  // namespace

Augmenter::Augmenter(const AugmentOptions& options) : options_(options) { check_augment(options_); }

void Augmenter::operator()(AnnotatedImage& image, SampleRandom& random) const {
  const double factor = random.uniform(options_.scale_min, options_.scale_max);
  const bool turned = random.chance(options_.rotate_prob);
  const double degrees = random.uniform(-options_.rotate_degrees, options_.rotate_degrees);
  const auto side = std::max<std::int64_t>(1, std::llround(static_cast<double>(options_.crop) / factor));
  const RandomCrop cut{.size = {side, side}, .fill = kMeanColor};
  Region region = cut.parameters(image.pixels.size(), random);
  if (turned) {
    const std::int64_t border = border_for(side, degrees);
    region = {region.left - border, region.top - border, {side + 2 * border, side + 2 * border}};
  }
  cut.apply(image, region);
  if (turned) {
    Rotation{.fill = kMeanColor}.apply(image, degrees);
    CenterCrop{.size = {side, side}, .fill = kMeanColor}(image);
  }
  if (side != options_.crop) Resize{.size = {options_.crop, options_.crop}}(image);
  PhotometricDistort{.p = options_.photometric_prob}(image, random);
  GaussianBlur{.kernel = 5, .p = options_.blur_prob}(image, random);
  HorizontalFlip{.p = options_.flip_prob}(image, random);
}

}  // namespace lockstep::segmentation
