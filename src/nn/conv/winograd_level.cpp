// SPDX-License-Identifier: Apache-2.0
#include "nn/conv/winograd_level.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace lockstep::nn {
namespace {

constexpr std::int64_t kSampledPixels = 256;  // the mean is off by about 1/16 of the standard deviation: harmless
constexpr std::int64_t kTaps = 9;

float from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

/// Returns the i-th pixel of the sample. The step shares no divisor with any width or number of pixels.
std::int64_t sampled_pixel(std::int64_t i, std::int64_t pixels) {
  constexpr std::int64_t kStep = 2654435761;  // Knuth's prime for multiplicative hashing
  return i * kStep % pixels;
}

/// Sums level x weight over the input channels, for each of the 3x3 weights and each output channel: [9, out].
std::vector<float> level_taps(const Winograd& conv, const WinogradWeights& weights, const std::vector<float>& level) {
  std::vector<float> taps(static_cast<std::size_t>(kTaps * conv.out));
  for (std::int64_t o = 0; o < conv.out; ++o) {
    for (std::int64_t tap = 0; tap < kTaps; ++tap) {
      const float* at = weights.data + o * weights.out + tap / 3 * weights.row + tap % 3 * weights.column;
      double sum = 0;
      for (std::int64_t i = 0; i < conv.in; ++i) sum += double{level[static_cast<std::size_t>(i)]} * at[i * weights.in];
      taps[static_cast<std::size_t>(tap * conv.out + o)] = static_cast<float>(sum);
    }
  }
  return taps;
}

/// True if the pixel of weight `tap` is inside the image for a result at `border`, see winograd_border().
bool is_inside(std::int64_t border, std::int64_t tap) {
  const bool above = tap / 3 == 0 && (border & 8) != 0;
  const bool below = tap / 3 == 2 && (border & 4) != 0;
  const bool left = tap % 3 == 0 && (border & 2) != 0;
  const bool right = tap % 3 == 2 && (border & 1) != 0;
  return !above && !below && !left && !right;
}

}  // namespace

std::vector<float> winograd_level(const std::uint16_t* x, std::int64_t pixels, std::int64_t channels) {
  const std::int64_t count = std::min(kSampledPixels, pixels);
  std::vector<double> sums(static_cast<std::size_t>(channels));
  std::vector<double> squares(static_cast<std::size_t>(channels));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint16_t* pixel = x + sampled_pixel(i, pixels) * channels;
    for (std::size_t c = 0; c < sums.size(); ++c) {
      const double value = from_bfloat16(pixel[c]);
      sums[c] += value;
      squares[c] += value * value;
    }
  }
  std::vector<float> level(sums.size());
  bool any = false;
  for (std::size_t c = 0; c < sums.size(); ++c) {
    const double mean = sums[c] / static_cast<double>(count);
    const double variance = squares[c] / static_cast<double>(count) - mean * mean;
    // NaN and infinity get no level, so that they affect only results near their own pixels.
    if (!(mean * mean > variance)) continue;
    level[c] = static_cast<float>(mean);
    any = true;
  }
  return any ? level : std::vector<float>();
}

std::vector<float> winograd_level_bias(const Winograd& conv, const WinogradWeights& weights,
                                       const std::vector<float>& level, const float* bias) {
  const std::vector<float> taps = level_taps(conv, weights, level);
  std::vector<float> all(static_cast<std::size_t>(16 * conv.out));
  for (std::int64_t border = 0; border < 16; ++border) {
    float* to = all.data() + border * conv.out;
    if (bias != nullptr) std::copy(bias, bias + conv.out, to);
    for (std::int64_t tap = 0; tap < kTaps; ++tap) {
      if (!is_inside(border, tap)) continue;
      for (std::int64_t o = 0; o < conv.out; ++o) to[o] += taps[static_cast<std::size_t>(tap * conv.out + o)];
    }
  }
  return all;
}

void winograd_add_tap_sums(const Winograd& conv, const std::uint16_t* dy, double* sums) {
  std::vector<float> row(static_cast<std::size_t>(conv.out));
  for (std::int64_t y = 0; y < conv.height; ++y, dy += conv.width * conv.out) {
    pixel_sums(dy, conv.width, conv.out, row.data());
    const std::uint16_t* last = dy + (conv.width - 1) * conv.out;
    for (std::int64_t down = 0; down < 3; ++down) {
      if ((down == 0 && y == 0) || (down == 2 && y == conv.height - 1)) continue;
      double* to = sums + 3 * down * conv.out;
      for (std::int64_t o = 0; o < conv.out; ++o) {
        const double all = row[static_cast<std::size_t>(o)];
        to[o] += all - from_bfloat16(dy[o]);
        to[conv.out + o] += all;
        to[2 * conv.out + o] += all - from_bfloat16(last[o]);
      }
    }
  }
}

void winograd_add_level(const Winograd& conv, const std::vector<float>& level, const std::vector<double>& sums,
                        const WinogradWeights& gradient) {
  auto* data = const_cast<float*>(gradient.data);
  for (std::int64_t o = 0; o < conv.out; ++o) {
    for (std::int64_t tap = 0; tap < kTaps; ++tap) {
      float* at = data + o * gradient.out + tap / 3 * gradient.row + tap % 3 * gradient.column;
      const double sum = sums[static_cast<std::size_t>(tap * conv.out + o)];
      for (std::int64_t i = 0; i < conv.in; ++i) {
        at[i * gradient.in] += static_cast<float>(level[static_cast<std::size_t>(i)] * sum);
      }
    }
  }
}

}  // namespace lockstep::nn
