// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/augment/detection.h"

#include <algorithm>
#include <array>

#include "data/augment/marks.h"

namespace lockstep {
namespace {

std::int64_t part(std::int64_t side, double share) {
  return static_cast<std::int64_t>(static_cast<double>(side) * share);
}

Box box_of(const Region& region) {
  return {static_cast<float>(region.left), static_cast<float>(region.top),
          static_cast<float>(region.left + region.size.width), static_cast<float>(region.top + region.size.height)};
}

bool holds_middle(const Box& outer, const Box& box) {
  const float x = (box.x1 + box.x2) / 2;
  const float y = (box.y1 + box.y2) / 2;
  return outer.x1 < x && x < outer.x2 && outer.y1 < y && y < outer.y2;
}

/// Returns the intersection over union of two boxes.
float overlap(const Box& a, const Box& b) {
  const float width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  const float height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (width <= 0 || height <= 0) return 0.0F;
  return width * height / (a.area() + b.area() - width * height);
}

bool is_good_crop(const Box& crop, const std::vector<Object>& objects, double least) {
  bool any = false;
  float best = 0.0F;
  for (const Object& object : objects) {
    if (!holds_middle(crop, object.box)) continue;
    any = true;
    best = std::max(best, overlap(crop, object.box));
  }
  return any && best >= static_cast<float>(least);
}

}  // namespace

Region ZoomOut::parameters(ImageSize picture, SampleRandom& random) const {
  const double side = random.uniform(min_side, max_side);
  const ImageSize canvas{part(picture.width, side), part(picture.height, side)};
  const std::int64_t left = part(canvas.width - picture.width, random.uniform());
  return {-left, -part(canvas.height - picture.height, random.uniform()), canvas};
}

void ZoomOut::apply(AnnotatedImage& image, const Region& canvas) const { data::place(image, canvas, fill); }

void ZoomOut::operator()(AnnotatedImage& image, SampleRandom& random) const {
  if (random.chance(p)) apply(image, parameters(image.pixels.size(), random));
}

std::optional<Region> IoUCrop::parameters(const AnnotatedImage& image, SampleRandom& random) const {
  constexpr std::array kShares{0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0};
  const ImageSize size = image.pixels.size();
  while (true) {
    const double share = kShares[random.below(kShares.size())];
    if (share >= 1.0) return std::nullopt;
    for (int i = 0; i < tries; ++i) {
      Region region;
      region.size = {part(size.width, random.uniform(min_scale, max_scale)),
                     part(size.height, random.uniform(min_scale, max_scale))};
      if (region.size.width == 0 || region.size.height == 0) continue;
      const double ratio = static_cast<double>(region.size.width) / static_cast<double>(region.size.height);
      if (ratio < min_ratio || ratio > max_ratio) continue;
      region.left = part(size.width - region.size.width, random.uniform());
      region.top = part(size.height - region.size.height, random.uniform());
      if (is_good_crop(box_of(region), image.objects, share)) return region;
    }
  }
}

void IoUCrop::apply(AnnotatedImage& image, const Region& region) {
  std::erase_if(image.objects, [&](const Object& object) { return !holds_middle(box_of(region), object.box); });
  data::place(image, region, {});
}

void IoUCrop::operator()(AnnotatedImage& image, SampleRandom& random) const {
  if (!random.chance(p)) return;
  if (const auto region = parameters(image, random)) apply(image, *region);
}

void SanitizeBoxes::operator()(AnnotatedImage& image) const {
  const auto least = static_cast<float>(min_size);
  std::erase_if(image.objects,
                [&](const Object& object) { return object.box.width() < least || object.box.height() < least; });
}

}  // namespace lockstep
