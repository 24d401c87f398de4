// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/augment/crop.h"

#include <algorithm>
#include <cmath>

#include "data/augment/marks.h"
#include "data/augment/resized.h"

namespace lockstep {
namespace {

std::int64_t rounded(double value) { return static_cast<std::int64_t>(std::nearbyint(value)); }

/// Returns the largest centred region with an allowed aspect ratio.
Region middle_of(ImageSize picture, double min_ratio, double max_ratio) {
  ImageSize size = picture;
  const double ratio = static_cast<double>(picture.width) / static_cast<double>(picture.height);
  if (ratio < min_ratio) size.height = rounded(static_cast<double>(picture.width) / min_ratio);
  if (ratio > max_ratio) size.width = rounded(static_cast<double>(picture.height) * max_ratio);
  return {(picture.width - size.width) / 2, (picture.height - size.height) / 2, size};
}

}  // namespace

Region RandomResizedCrop::parameters(ImageSize picture, SampleRandom& random) const {
  constexpr int kTries = 10;
  const double area = static_cast<double>(picture.width) * static_cast<double>(picture.height);
  for (int i = 0; i < kTries; ++i) {
    const double wanted = area * random.uniform(min_scale, max_scale);
    const double ratio = std::exp(random.uniform(std::log(min_ratio), std::log(max_ratio)));
    const ImageSize part{rounded(std::sqrt(wanted * ratio)), rounded(std::sqrt(wanted / ratio))};
    if (part.width > 0 && part.width <= picture.width && part.height > 0 && part.height <= picture.height) {
      const std::int64_t top = random.between(0, picture.height - part.height);
      return {random.between(0, picture.width - part.width), top, part};
    }
  }
  return middle_of(picture, min_ratio, max_ratio);
}

void RandomResizedCrop::apply(AnnotatedImage& image, const Region& region) const {
  data::resize_part(image, region, {size, interpolation, shrink_while_decoding});
}

void RandomResizedCrop::operator()(AnnotatedImage& image, SampleRandom& random) const {
  apply(image, parameters(image.pixels.size(), random));
}

Region CenterCrop::region_of(ImageSize picture) const {
  // For a smaller image torchvision pads the odd pixel to the right; for a larger image it rounds half to even.
  const auto offset = [](std::int64_t have, std::int64_t want) {
    return have < want ? -((want - have) / 2) : rounded(static_cast<double>(have - want) / 2.0);
  };
  return {offset(picture.width, size.width), offset(picture.height, size.height), size};
}

void CenterCrop::operator()(AnnotatedImage& image) const { data::place(image, region_of(image.pixels.size()), fill); }

void Pad::operator()(AnnotatedImage& image) const {
  const ImageSize size = image.pixels.size();
  data::place(image, {-left, -top, {left + size.width + right, top + size.height + bottom}}, fill);
}

Region RandomCrop::parameters(ImageSize picture, SampleRandom& random) const {
  const auto offset = [&](std::int64_t have, std::int64_t want) {
    const std::int64_t missing = std::max<std::int64_t>(want - have - 2 * padding, 0);
    const std::int64_t border = padding + missing;
    return random.between(0, have + 2 * border - want) - border;
  };
  const std::int64_t top = offset(picture.height, size.height);
  return {offset(picture.width, size.width), top, size};
}

void RandomCrop::apply(AnnotatedImage& image, const Region& region) const { data::place(image, region, fill); }

void RandomCrop::operator()(AnnotatedImage& image, SampleRandom& random) const {
  apply(image, parameters(image.pixels.size(), random));
}

}  // namespace lockstep
