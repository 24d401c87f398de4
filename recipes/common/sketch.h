// SPDX-License-Identifier: Apache-2.0
// An image under construction, on which all recipes paint their synthetic scenes. No torch header.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "lockstep/data/picture.h"
#include "lockstep/data/sample_random.h"

namespace lockstep::common {

/// Throws: UsageError if a side is not within 32 .. 4096 pixels.
void require_scene_size(ImageSize size);

/// Red, green and blue of every pixel in 0 .. 255, rounded once, at the end.
template <class Number>
class Sketch {
 public:
  using Tint = std::array<Number, 3>;

  explicit Sketch(ImageSize size) : size_(size), tints_(static_cast<std::size_t>(size.width * size.height)) {}

  /// Returns a colour that is neither very dark nor very bright.
  static Tint random_tint(SampleRandom& random) {
    Tint tint{};
    for (Number& channel : tint) channel = static_cast<Number>(random.uniform(20, 235));
    return tint;
  }

  [[nodiscard]] ImageSize size() const noexcept { return size_; }
  [[nodiscard]] std::vector<Tint>& tints() noexcept { return tints_; }
  [[nodiscard]] std::size_t index(std::int64_t x, std::int64_t y) const noexcept {
    return static_cast<std::size_t>(y * size_.width + x);
  }
  [[nodiscard]] Tint& at(std::int64_t x, std::int64_t y) noexcept { return tints_[index(x, y)]; }

  /// Calls work(index, dx, dy) for the pixels of the square around (x, y); (dx, dy) is the offset of the pixel's
  /// centre.
  template <class Work>
  void each_near(double x, double y, double reach, const Work& work) {
    const auto low = [&](double middle) { return std::max<std::int64_t>(0, std::llround(middle - reach) - 1); };
    const auto high = [&](double middle, std::int64_t side) {
      return std::min<std::int64_t>(side, std::llround(middle + reach) + 1);
    };
    for (std::int64_t py = low(y); py < high(y, size_.height); ++py) {
      for (std::int64_t px = low(x); px < high(x, size_.width); ++px) {
        work(index(px, py), static_cast<double>(px) + 0.5 - x, static_cast<double>(py) + 0.5 - y);
      }
    }
  }

  /// Adds independent noise of at most +-`most` to every channel.
  void add_noise(double most, SampleRandom& random) {
    const auto scale = static_cast<Number>(most / 1023.0);
    for (Tint& tint : tints_) {
      const std::uint64_t bits = random();
      for (unsigned i = 0; i < 3; ++i) {
        // The sum of two uniform random numbers has a triangular distribution around 0.
        tint[i] += scale * (static_cast<Number>((bits >> (20 * i) & 0x3ff) + (bits >> (20 * i + 10) & 0x3ff)) - 1023);
      }
    }
  }

  [[nodiscard]] Image rounded() const {
    Image image{size_, 3, {}};
    image.pixels.reserve(3 * tints_.size());
    for (const Tint& tint : tints_) {
      for (const Number channel : tint) {
        image.pixels.push_back(
            static_cast<std::uint8_t>(std::clamp<Number>(channel + Number{0.5}, Number{0}, Number{255})));
      }
    }
    return image;
  }

 private:
  ImageSize size_;
  std::vector<Tint> tints_;
};

}  // namespace lockstep::common
