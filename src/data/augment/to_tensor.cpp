// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/augment/to_tensor.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "data/augment/own_memory.h"
#include "data/pixel_kernel.h"
#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::string name_of(const AnnotatedImage& image) {
  return image.name.empty() ? fmt::format("picture {}", image.id) : fmt::format("picture {}", image.name);
}

std::array<float, 4> box_of(const Box& box, ImageSize size, bool centered) {
  if (!centered) return {box.x1, box.y1, box.x2, box.y2};
  const auto width = static_cast<float>(size.width);
  const auto height = static_cast<float>(size.height);
  return {(box.x1 + box.x2) / 2 / width, (box.y1 + box.y2) / 2 / height, box.width() / width, box.height() / height};
}

}  // namespace

Sample Normalize::operator()(Sample sample) const {
  at::Tensor& data = sample.data;
  const bool fits = data.defined() && data.scalar_type() == c10::ScalarType::Float && data.dim() == 3 &&
                    (data.size(0) == 1 || data.size(0) == 3);
  if (!fits) {
    throw UsageError("Normalize needs float32 samples of 1 or 3 channels, C x H x W",
                     "put it after ToTensor in the chain");
  }
  data::make_own(sample.data);
  const std::int64_t plane = data.size(1) * data.size(2);
  for (std::int64_t channel = 0; channel < data.size(0); ++channel) {
    const auto at = static_cast<std::size_t>(channel);
    float* values = data.data_ptr<float>() + channel * plane;
    for (std::int64_t i = 0; i < plane; ++i) values[i] = (values[i] - mean[at]) / deviation[at];
  }
  return sample;
}

void ClassTarget::operator()(const AnnotatedImage& image, const SampleContext& context, Sample& sample) const {
  if (!image.label) {
    throw DataError(fmt::format("{} has no class", name_of(image)),
                    "use a source with classes, or pass a different target to ToTensor");
  }
  sample.target = context.empty_target({}, c10::ScalarType::Long);
  *sample.target.data_ptr<std::int64_t>() = *image.label;
}

void MapTarget::operator()(const AnnotatedImage& image, const SampleContext& context, Sample& sample) const {
  if (index >= image.maps.size()) {
    throw DataError(fmt::format("{} has {} maps, but map {} was requested", name_of(image), image.maps.size(), index));
  }
  const Image& map = image.maps[index].image;
  sample.target = context.empty_target({map.size.height, map.size.width}, c10::ScalarType::Long);
  std::ranges::copy(map.pixels, sample.target.data_ptr<std::int64_t>());
}

void DetectionTarget::operator()(const AnnotatedImage& image, const SampleContext& /*context*/, Sample& sample) const {
  const auto count = static_cast<std::int64_t>(image.objects.size());
  Detections found{at::empty({count, 4}, c10::ScalarType::Float),
                   at::empty({count}, c10::ScalarType::Long),
                   at::empty({count}, c10::ScalarType::Float),
                   at::empty({count}, c10::ScalarType::Bool),
                   image.pixels.size(),
                   image.id};
  for (std::int64_t i = 0; i < count; ++i) {
    const Object& object = image.objects[static_cast<std::size_t>(i)];
    std::ranges::copy(box_of(object.box, found.size, centered), found.boxes.data_ptr<float>() + 4 * i);
    found.labels.data_ptr<std::int64_t>()[i] = object.label;
    found.areas.data_ptr<float>()[i] = object.area;
    found.crowd.data_ptr<bool>()[i] = object.crowd;
  }
  sample.extra = std::move(found);
}

Sample ToTensor::operator()(AnnotatedImage& image, const SampleContext& context) const {
  const PixelView view = image.pixels.view();
  if (view.channels != 1 && view.channels != 3) {
    throw UsageError(fmt::format("{} has {} channels; ToTensor accepts 1 or 3", name_of(image), view.channels));
  }
  Sample sample;
  sample.data = context.empty_data({view.channels, view.size.height, view.size.width});
  data::FloatRule rule;
  if (normalize) rule = {normalize->mean, normalize->deviation};
  data::to_float_planes(view, rule, sample.data.data_ptr<float>());
  if (target) {
    target(image, context, sample);
  } else if (image.label) {
    ClassTarget{}(image, context, sample);
  }
  return sample;
}

}  // namespace lockstep
