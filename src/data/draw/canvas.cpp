// SPDX-License-Identifier: Apache-2.0
#include "data/draw/canvas.h"

#include <algorithm>

namespace lockstep::data {

Ink ink_of(std::int64_t number) {
  // Okabe and Ito's palette, which colour-blind people can distinguish, plus four more colours.
  constexpr std::array<Ink, 11> kInks{{{230, 159, 0},
                                       {86, 180, 233},
                                       {0, 158, 115},
                                       {240, 228, 66},
                                       {213, 94, 0},
                                       {204, 121, 167},
                                       {0, 114, 178},
                                       {255, 80, 80},
                                       {120, 255, 120},
                                       {180, 120, 255},
                                       {255, 255, 255}}};
  const auto count = static_cast<std::int64_t>(kInks.size());
  return kInks[static_cast<std::size_t>((number % count + count) % count)];
}

Canvas::Canvas(ImageSize size, const Ink& paper) : image_{size, 3, {}} {
  image_.pixels.resize(static_cast<std::size_t>(size.width * size.height * 3));
  fill({0, 0, size}, paper);
}

void Canvas::fill(const Region& region, const Ink& ink) {
  const std::int64_t left = std::max<std::int64_t>(region.left, 0);
  const std::int64_t right = std::min(region.left + region.size.width, image_.size.width);
  const std::int64_t bottom = std::min(region.top + region.size.height, image_.size.height);
  for (std::int64_t y = std::max<std::int64_t>(region.top, 0); y < bottom; ++y) {
    for (std::int64_t x = left; x < right; ++x) {
      std::ranges::copy(ink, image_.pixels.begin() + (y * image_.size.width + x) * 3);
    }
  }
}

void Canvas::paste(const Image& image, std::int64_t left, std::int64_t top) {
  for (std::int64_t y = 0; y < image.size.height; ++y) {
    for (std::int64_t x = 0; x < image.size.width; ++x) {
      const std::uint8_t* from = image.pixels.data() + (y * image.size.width + x) * image.channels;
      const bool gray = image.channels == 1;
      fill({left + x, top + y, {1, 1}}, {from[0], gray ? from[0] : from[1], gray ? from[0] : from[2]});
    }
  }
}

void Canvas::frame(const Box& box, const Ink& ink, std::int64_t thick) {
  const auto left = static_cast<std::int64_t>(box.x1);
  const auto top = static_cast<std::int64_t>(box.y1);
  const std::int64_t width = std::max(static_cast<std::int64_t>(box.x2) - left, thick);
  const std::int64_t height = std::max(static_cast<std::int64_t>(box.y2) - top, thick);
  fill({left, top, {width, thick}}, ink);
  fill({left, top + height - thick, {width, thick}}, ink);
  fill({left, top, {thick, height}}, ink);
  fill({left + width - thick, top, {thick, height}}, ink);
}

void Canvas::tint(std::int64_t x, std::int64_t y, const Ink& ink, float share) {
  if (x < 0 || y < 0 || x >= image_.size.width || y >= image_.size.height) return;
  std::uint8_t* pixel = image_.pixels.data() + (y * image_.size.width + x) * 3;
  for (std::size_t c = 0; c < 3; ++c) {
    const float mixed = static_cast<float>(pixel[c]) * (1 - share) + static_cast<float>(ink[c]) * share;
    pixel[c] = static_cast<std::uint8_t>(mixed + 0.5F);
  }
}

}  // namespace lockstep::data
