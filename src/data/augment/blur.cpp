// SPDX-License-Identifier: Apache-2.0
// GaussianBlur and RandomErasing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "data/augment/own_memory.h"
#include "lockstep/base/error.h"
#include "lockstep/data/augment/color.h"

namespace lockstep {

void GaussianBlur::apply(AnnotatedImage& image, double sigma) const {
  if (kernel < 1 || kernel % 2 == 0) {
    throw UsageError(fmt::format("GaussianBlur needs an odd kernel of at least 1 pixel, not {}", kernel));
  }
  Image& pixels = image.pixels.decoded();
  const int type = pixels.channels == 1 ? CV_8UC1 : CV_8UC3;
  cv::Mat matrix(static_cast<int>(pixels.size.height), static_cast<int>(pixels.size.width), type, pixels.pixels.data());
  const auto side = static_cast<int>(kernel);
  cv::GaussianBlur(matrix, matrix, {side, side}, sigma, sigma, cv::BORDER_REFLECT_101);
}

void GaussianBlur::operator()(AnnotatedImage& image, SampleRandom& random) const {
  if (random.chance(p)) apply(image, random.uniform(min_sigma, max_sigma));
}

std::optional<Region> RandomErasing::parameters(ImageSize picture, SampleRandom& random) const {
  constexpr int kTries = 10;
  const double area = static_cast<double>(picture.width * picture.height);
  for (int i = 0; i < kTries; ++i) {
    const double wanted = area * random.uniform(min_scale, max_scale);
    const double ratio = std::exp(random.uniform(std::log(min_ratio), std::log(max_ratio)));
    const ImageSize part{std::llrint(std::sqrt(wanted / ratio)), std::llrint(std::sqrt(wanted * ratio))};
    if (part.width >= picture.width || part.height >= picture.height) continue;
    const std::int64_t top = random.between(0, picture.height - part.height);
    return Region{random.between(0, picture.width - part.width), top, part};
  }
  return std::nullopt;
}

void RandomErasing::apply(Sample& sample, const Region& region) const {
  at::Tensor& data = sample.data;
  if (!data.defined() || data.scalar_type() != c10::ScalarType::Float || data.dim() != 3) {
    throw UsageError("RandomErasing needs float32 samples, C x H x W", "put it after ToTensor in the chain");
  }
  data::make_own(sample.data);
  for (std::int64_t channel = 0; channel < data.size(0); ++channel) {
    for (std::int64_t y = region.top; y < region.top + region.size.height; ++y) {
      float* row = data.data_ptr<float>() + (channel * data.size(1) + y) * data.size(2);
      std::fill_n(row + region.left, region.size.width, value);
    }
  }
}

Sample RandomErasing::operator()(Sample sample, SampleRandom& random) const {
  if (!random.chance(p)) return sample;
  if (!sample.data.defined() || sample.data.dim() != 3) {
    apply(sample, {});
  } else if (const auto region = parameters({sample.data.size(2), sample.data.size(1)}, random)) {
    apply(sample, *region);
  }
  return sample;
}

}  // namespace lockstep
