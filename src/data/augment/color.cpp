// SPDX-License-Identifier: Apache-2.0
// Colour changes with the arithmetic of Pillow 9.4: float32 blends that are truncated to integers, and 8-bit HSV.
#include "lockstep/data/augment/color.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "data/augment/blend.h"
#include "data/pixel_kernel.h"
#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::uint8_t whole(float value) {
  if (value <= 0.0F) return 0;
  return value >= 255.0F ? std::uint8_t{255} : static_cast<std::uint8_t>(value);
}

/// Returns from + factor * (to - from); `to` is the image's value.
std::uint8_t blend(std::uint8_t from, std::uint8_t to, float factor) {
  return whole(static_cast<float>(from) + factor * static_cast<float>(int{to} - int{from}));
}

/// Blends every value of the image with `from`.
void blend_with(Image& image, std::uint8_t from, double factor) {
  std::array<std::uint8_t, 256> table;
  for (int value = 0; value < 256; ++value) {
    table[static_cast<std::size_t>(value)] = blend(from, static_cast<std::uint8_t>(value), static_cast<float>(factor));
  }
  for (std::uint8_t& value : image.pixels) value = table[value];
}

std::vector<std::uint8_t> gray_of(const Image& image) {
  if (image.channels == 1) return image.pixels;
  std::vector<std::uint8_t> gray(image.pixels.size() / 3);
  data::rgb_to_gray(image.pixels.data(), gray.size(), gray.data());
  return gray;
}

struct Hsv {
  std::uint8_t hue;
  std::uint8_t saturation;
  std::uint8_t value;
};

Hsv to_hsv(const std::uint8_t* rgb) {
  const std::uint8_t most = std::max({rgb[0], rgb[1], rgb[2]});
  const std::uint8_t least = std::min({rgb[0], rgb[1], rgb[2]});
  if (most == least) return {0, 0, most};
  const auto range = static_cast<float>(most - least);
  const float saturation = range / static_cast<float>(most);
  const float red = static_cast<float>(most - rgb[0]) / range;
  const float green = static_cast<float>(most - rgb[1]) / range;
  const float blue = static_cast<float>(most - rgb[2]) / range;
  auto hue = static_cast<float>(4.0 + green - red);
  if (rgb[0] == most) {
    hue = blue - green;
  } else if (rgb[1] == most) {
    hue = static_cast<float>(2.0 + red - blue);
  }
  hue = static_cast<float>(std::fmod(hue / 6.0 + 1.0, 1.0));
  return {static_cast<std::uint8_t>(hue * 255.0), static_cast<std::uint8_t>(saturation * 255.0), most};
}

void to_rgb(const Hsv& from, std::uint8_t* rgb) {
  if (from.saturation == 0) {
    std::fill_n(rgb, 3, from.value);
    return;
  }
  const double turn = static_cast<float>(from.hue) * 6.0 / 255.0;
  const int sector = static_cast<int>(std::floor(turn));
  const auto f = static_cast<float>(turn - static_cast<float>(sector));
  const auto saturation = static_cast<float>(static_cast<float>(from.saturation) / 255.0);
  const auto shade = [&](double part) {
    return static_cast<std::uint8_t>(std::clamp(std::round(static_cast<float>(from.value) * part), 0.0, 255.0));
  };
  const std::uint8_t p = shade(1.0 - saturation);
  const std::uint8_t q = shade(1.0 - static_cast<double>(saturation * f));
  const std::uint8_t t = shade(1.0 - saturation * (1.0 - f));
  const std::uint8_t v = from.value;
  const std::uint8_t sectors[6][3] = {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}};
  std::copy_n(sectors[sector % 6], 3, rgb);
}

}  // namespace

namespace data {

void blend_images(Image& image, const Image& other, double share) {
  const auto factor = static_cast<float>(share);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] = blend(other.pixels[i], image.pixels[i], factor);
  }
}

}  // namespace data

void Gray::operator()(AnnotatedImage& image) const {
  if (channels != 1 && channels != 3) {
    throw UsageError(fmt::format("Gray outputs 1 or 3 channels, not {}", channels));
  }
  const PixelView view = image.pixels.view(ColorMode::kGray);
  if (view.channels == channels && channels == 1) return;
  Image gray{view.size, 1, {}};
  gray.pixels.resize(static_cast<std::size_t>(view.size.width * view.size.height));
  for (std::int64_t y = 0; y < view.size.height; ++y) {
    std::uint8_t* to = gray.pixels.data() + y * view.size.width;
    if (view.channels == 1) {
      std::copy_n(view.row(y), view.size.width, to);
    } else {
      data::rgb_to_gray(view.row(y), static_cast<std::size_t>(view.size.width), to);
    }
  }
  if (channels == 3) {
    Image three{gray.size, 3, {}};
    three.pixels.reserve(gray.pixels.size() * 3);
    for (const std::uint8_t value : gray.pixels) three.pixels.insert(three.pixels.end(), 3, value);
    gray = std::move(three);
  }
  image.pixels = std::move(gray);
}

void adjust_brightness(Image& image, double factor) { blend_with(image, 0, factor); }

void adjust_contrast(Image& image, double factor) {
  double sum = 0;
  const std::vector<std::uint8_t> gray = gray_of(image);
  for (const std::uint8_t value : gray) sum += value;
  blend_with(image, static_cast<std::uint8_t>(sum / static_cast<double>(gray.size()) + 0.5), factor);
}

void adjust_saturation(Image& image, double factor) {
  if (image.channels != 3) return;
  const std::vector<std::uint8_t> gray = gray_of(image);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] = blend(gray[i / 3], image.pixels[i], static_cast<float>(factor));
  }
}

void adjust_hue(Image& image, double turn) {
  if (image.channels != 3) return;
  const auto steps = static_cast<std::uint8_t>(static_cast<int>(turn * 255.0));
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    Hsv hsv = to_hsv(image.pixels.data() + i);
    hsv.hue = static_cast<std::uint8_t>(hsv.hue + steps);
    to_rgb(hsv, image.pixels.data() + i);
  }
}

ColorJitter::Parameters ColorJitter::parameters(SampleRandom& random) const {
  Parameters drawn;
  for (std::size_t i = drawn.order.size() - 1; i > 0; --i) std::swap(drawn.order[i], drawn.order[random.below(i + 1)]);
  const auto factor = [&](double range) -> std::optional<double> {
    if (range <= 0) return std::nullopt;
    return random.uniform(std::max(0.0, 1.0 - range), 1.0 + range);
  };
  drawn.values[0] = factor(brightness);
  drawn.values[1] = factor(contrast);
  drawn.values[2] = factor(saturation);
  if (hue > 0) drawn.values[3] = random.uniform(-hue, hue);
  return drawn;
}

void ColorJitter::apply(AnnotatedImage& image, const Parameters& parameters) {
  constexpr std::array kChanges{adjust_brightness, adjust_contrast, adjust_saturation, adjust_hue};
  Image& pixels = image.pixels.decoded();
  for (const int change : parameters.order) {
    const auto at = static_cast<std::size_t>(change);
    if (parameters.values[at]) kChanges[at](pixels, *parameters.values[at]);
  }
}

void ColorJitter::operator()(AnnotatedImage& image, SampleRandom& random) const {
  if (random.chance(p)) apply(image, parameters(random));
}

void PhotometricDistort::operator()(AnnotatedImage& image, SampleRandom& random) const {
  Image& pixels = image.pixels.decoded();
  const auto maybe = [&](void (*change)(Image&, double), double low, double high) {
    if (random.chance(p)) change(pixels, random.uniform(low, high));
  };
  maybe(adjust_brightness, min_brightness, max_brightness);
  const bool contrast_first = random.chance(0.5);
  if (contrast_first) maybe(adjust_contrast, min_contrast, max_contrast);
  maybe(adjust_saturation, min_contrast, max_contrast);
  maybe(adjust_hue, -hue, hue);
  if (!contrast_first) maybe(adjust_contrast, min_contrast, max_contrast);
  if (!random.chance(p) || pixels.channels != 3) return;
  std::array<std::size_t, 3> order{0, 1, 2};
  for (std::size_t i = 2; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  for (std::size_t i = 0; i < pixels.pixels.size(); i += 3) {
    const std::array from{pixels.pixels[i], pixels.pixels[i + 1], pixels.pixels[i + 2]};
    for (std::size_t c = 0; c < 3; ++c) pixels.pixels[i + c] = from[order[c]];
  }
}

}  // namespace lockstep
