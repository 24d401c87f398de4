// SPDX-License-Identifier: Apache-2.0
// The passes of batch norm + (dropout) + ReLU + (2x2 max pooling) over channels-last memory. Does not use libtorch.
//
// With x the input, y = a x + b by channel, k dropout's mask times its scale, z = max(0, k y), and p the largest z of
// each 2x2 window: forward reads x twice (statistics, then z or p) and stores z or p. Nothing else is saved: backward
// recomputes z from x. It reads x and the gradient twice (sums, then the input's gradient).
//
// A residual may be added to y before ReLU. Backward reads it again, and its gradient is g, defined below.
//
// Sums have a fixed order: within an image in float32; over images the caller sums in double.
#pragma once

#include <cstdint>

namespace lockstep::nn {

/// The shape that all passes share. Images are dense [height, width, channels].
struct NormActShape {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;  ///< a multiple of 8
  bool pool = false;          ///< 2x2 windows, stride 2; an odd last row or column has no window

  [[nodiscard]] std::int64_t out_height() const { return pool ? height / 2 : height; }
  [[nodiscard]] std::int64_t out_width() const { return pool ? width / 2 : width; }
  [[nodiscard]] std::int64_t in_image() const { return height * width * channels; }
  [[nodiscard]] std::int64_t out_image() const { return out_height() * out_width() * channels; }
};

/// The factors a and b by channel, float32.
struct NormActChannels {
  const float* a = nullptr;
  const float* b = nullptr;
};

/// The elements that dropout keeps: a bit for each input element in memory order, set if it is kept. Null means no
/// dropout.
struct NormActDropout {
  const std::uint8_t* kept = nullptr;  ///< bits, with at least 4 readable bytes after the last
  float scale = 1;
};

/// One image of the batch: its input, and its index, which selects its dropout bits.
struct NormActImage {
  const void* x = nullptr;
  std::int64_t index = 0;
  const void* residual = nullptr;  ///< residual of x's type, or null; not allowed with dropout or pooling
};

/// Element types: float32, or bfloat16 as its 16 bits.
enum class NormActType { kFloat, kBFloat16 };

/// Sums (x - shift) and its square over one image, by channel.
void norm_act_statistics(NormActType type, const void* image, const NormActShape& shape, const float* shift,
                         float* sums_2C);

/// Writes one image's z or p to `out`.
struct NormActForward {
  NormActType type;
  NormActShape shape;
  NormActChannels channels;
  NormActDropout dropout;
};
void norm_act_forward(const NormActForward& pass, const NormActImage& image, void* out);

/// Sums g and g * (x - mean) over one image, by channel. g is the gradient that reaches y, not yet scaled by dropout:
/// only the first largest element of each window receives it, if it is kept and above 0.
void norm_act_backward_sums(const NormActForward& pass, const NormActImage& image, const void* grad, const float* mean,
                            float* sums_2C);

/// The factors of one image's dx = da g + dp x + dq, by channel.
struct NormActGradient {
  const float* da = nullptr;
  const float* dp = nullptr;
  const float* dq = nullptr;
};
/// The buffers for one image's gradients.
struct NormActInto {
  void* x = nullptr;
  void* residual = nullptr;  ///< receives g; null without a residual
};
void norm_act_backward(const NormActForward& pass, const NormActImage& image, const void* grad,
                       const NormActGradient& factors, const NormActInto& into);

}  // namespace lockstep::nn
