// SPDX-License-Identifier: Apache-2.0
// Convolutions of any kernel, stride, padding and dilation as matrix products without copies, channels-last: the rows
// of the left matrix are pixels, read in place. Pixels whose filters extend outside the image at the same taps are
// computed together, so no products are spent on the zeros around it. For a 3x3 kernel with dilation 6 on 9x9 pixels
// this saves two thirds of the products. A matrix product (1x1, a linear layer) is the simplest case. Does not use
// libtorch.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::nn {

/// One axis of a convolution.
struct DirectAxis {
  std::int64_t size = 1;  ///< pixels of the input
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;

  [[nodiscard]] std::int64_t results() const { return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1; }
};

/// A convolution of one group. In bfloat16 `in` is even.
struct DirectConv {
  std::int64_t images = 0;
  DirectAxis rows;
  DirectAxis columns;
  std::int64_t in = 0;
  std::int64_t out = 0;

  [[nodiscard]] std::int64_t taps() const { return rows.kernel * columns.kernel; }
  [[nodiscard]] std::int64_t pixels() const { return rows.size * columns.size; }
  [[nodiscard]] std::int64_t results() const { return rows.results() * columns.results(); }
};

/// Taps that are consecutive in memory as well as in the weights: they act as one tap with more channels.
struct DirectRun {
  std::int64_t from = 0;  ///< distance from a result's first pixel, in pixels
  std::int64_t tap = 0;
  std::int64_t taps = 1;
};

/// The start of a result's filter, in pixels of an image (it may be outside), and the index of the result.
struct DirectPixel {
  std::int64_t from = 0;
  std::int64_t to = 0;
};

/// Results of an image that use the same taps.
struct DirectClass {
  std::vector<DirectRun> runs;
  std::vector<DirectPixel> pixels;
};

/// Maps the pixels of an image to its results.
struct DirectPlan {
  std::int64_t images = 0;
  std::int64_t from_pixels = 0;  ///< pixels of an input image
  std::int64_t to_pixels = 0;
  std::int64_t in = 0;  ///< channels of the input
  std::int64_t out = 0;
  std::int64_t taps = 0;
  std::vector<DirectClass> classes;

  /// Returns the number of pieces that direct_forward() can compute separately.
  [[nodiscard]] std::int64_t pieces() const;
};

[[nodiscard]] DirectPlan direct_forward_plan(const DirectConv& conv);
/// Returns the plan of the gradient of the input: in and out swapped, taps reversed.
[[nodiscard]] DirectPlan direct_backward_plan(const DirectConv& conv);

/// The layout of the weights: the weight of output channel o, input channel i and tap t is data[o out + i in + t tap].
struct DirectWeights {
  const float* data = nullptr;
  std::int64_t out = 0;
  std::int64_t in = 0;
  std::int64_t tap = 0;

  /// Returns the weights of the convolution that computes the gradient of the input: taps reversed, in and out swapped.
  [[nodiscard]] DirectWeights turned(std::int64_t taps) const {
    return {.data = data + (taps - 1) * tap, .out = in, .in = out, .tap = -tap};
  }
};

/// Returns the number of elements in the packed weights.
[[nodiscard]] std::int64_t direct_packed_size(const DirectPlan& plan);

/// Packs the weights. float runs on any instruction set, bfloat16 (as its 16 bits) only with winograd_has_bfloat16().
void direct_pack(const DirectPlan& plan, const DirectWeights& weights, float* packed);
void direct_pack(const DirectPlan& plan, const DirectWeights& weights, std::uint16_t* packed);

/// The tensors of a convolution. The images of a batch are consecutive.
template <class T>
struct DirectImages {
  const T* x = nullptr;         ///< [images, from_pixels, in]
  const T* packed = nullptr;    ///< the result of direct_pack()
  T* y = nullptr;               ///< [images, to_pixels, out]
  const float* bias = nullptr;  ///< [out], or null
};

/// Computes the pieces from `begin` to `end`. The order of a result's sums does not depend on its piece.
void direct_forward(const DirectPlan& plan, const DirectImages<float>& images, std::int64_t begin, std::int64_t end);
void direct_forward(const DirectPlan& plan, const DirectImages<std::uint16_t>& images, std::int64_t begin,
                    std::int64_t end);

/// Pairs of pixels, over the whole batch, whose products give the gradient of some taps' weights.
struct DirectPairs {
  std::int64_t tap = 0;
  std::int64_t taps = 1;
  std::vector<std::int32_t> x;   ///< [taps, count]: -1 if a tap is outside
  std::vector<std::int32_t> dy;  ///< [count]
};

/// Groups the taps. With few channels, neighbouring taps share a group. With many, each tap has its own group, which
/// omits pixels outside the image.
[[nodiscard]] std::vector<DirectPairs> direct_pairs(const DirectConv& conv);

/// The tensors for the gradient of the weights.
template <class T>
struct DirectGradient {
  const T* x = nullptr;   ///< [images, pixels, in]
  const T* dy = nullptr;  ///< [images, results, out]
  float* sums = nullptr;  ///< [out, row]: a row has the taps, and for each the input channels
  std::int64_t row = 0;   ///< at least taps x in, rounded up to 16 unless in is a multiple of 16
};

/// Sums one group of taps for the output channels from `begin` to `end`. Both are multiples of 16, unless `end` is the
/// number of channels. Pixels are added in order, 512 at a time (256 in float32).
void direct_weight_sums(const DirectConv& conv, const DirectGradient<float>& gradient, const DirectPairs& pairs,
                        std::int64_t begin, std::int64_t end);
void direct_weight_sums(const DirectConv& conv, const DirectGradient<std::uint16_t>& gradient, const DirectPairs& pairs,
                        std::int64_t begin, std::int64_t end);

}  // namespace lockstep::nn
