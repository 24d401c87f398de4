// SPDX-License-Identifier: Apache-2.0
// 3x3 convolutions, channels-last, by Winograd's F(2x2, 3x3) and, in float32, F(4x4, 3x3): a tile of 2x2 results takes
// 16 products a pair of channels where the direct sum takes 36, one of 4x4 takes 36 of 144, so a kernel that runs at a
// processor's peak beats a direct one that does by up to 2.25 and 4. Source: Lavin and Gray, Fast Algorithms for
// Convolutional Neural Networks, 2016. Free of libtorch.
//
// Images are cut into tiles of 2x2 (4x4) pixels, row by row; what lies outside counts as 0. Of each tile's 4x4 (6x6)
// surroundings 16 (36) sums are taken (points), each point's channels are multiplied by a matrix of its own, and a
// tile's results are sums of the products. In the gradient of the weights the tiles are what is summed over.
//
// Numbers at the ends of float32's range cost more than in a direct sum. Of a pixel that is infinite or NaN all results
// of the tiles that it touches are NaN: up to 16 (64), where the direct sum has 9. A point is a sum of pixels with
// factors that add up to 4 (26), and a result one of products with up to 16 (180): above 1e36 they overflow to NaN. To
// look for such numbers would be one more pass over the images; a loss that is NaN ends a run in either case.
#pragma once

#include <cstdint>

namespace lockstep::nn {

/// A 3x3 convolution with padding 1 and stride 1: `in` and `out` channels are multiples of 16.
struct Winograd {
  std::int64_t images = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t tile = 2;  ///< results on a tile's side: 2, or 4, which bfloat16 has too few digits for

  [[nodiscard]] std::int64_t tile_columns() const { return (width + tile - 1) / tile; }
  [[nodiscard]] std::int64_t image_tile_rows() const { return (height + tile - 1) / tile; }
  [[nodiscard]] std::int64_t tile_rows() const { return images * image_tile_rows(); }  ///< tile rows of all images
  /// The gradient of the weights comes in this many parts, each of as many points, which may be computed on different
  /// threads.
  [[nodiscard]] std::int64_t parts() const { return tile + 2; }
  [[nodiscard]] std::int64_t points() const { return parts() * parts(); }
  /// From a point's matrix of in x out to the next: not a power of two, whose multiples share a set of the caches.
  [[nodiscard]] std::int64_t point_step() const { return in * out + 32; }
};

/// Where the weight of an output, an input channel, a row and a column of the 3x3 lies: data + o out + i in + ...
struct WinogradWeights {
  const float* data = nullptr;
  std::int64_t out = 0;
  std::int64_t in = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;

  /// The weights of the convolution that gives the gradient of the input: turned by 180 degrees, in and out swapped.
  [[nodiscard]] WinogradWeights turned() const {
    return {.data = data + 2 * row + 2 * column, .out = in, .in = out, .row = -row, .column = -column};
  }
};

/// Whether this processor multiplies bfloat16 in vectors. The bfloat16 functions below need it; float32 runs anywhere.
[[nodiscard]] bool winograd_has_bfloat16();
/// Whether it has matrix units for bfloat16 (AMX), with which a direct convolution is faster.
[[nodiscard]] bool processor_has_bfloat16_tiles();

/// The weights at the points, as the products take them: `packed` has points() x point_step() elements. For
/// bfloat16 (as its 16 bits) they are rounded after the transform.
void winograd_pack(const Winograd& conv, const WinogradWeights& weights, float* packed);
void winograd_pack(const Winograd& conv, const WinogradWeights& weights, std::uint16_t* packed);

/// What a convolution reads and writes, in float or bfloat16's 16 bits.
template <class T>
struct WinogradImages {
  const T* x = nullptr;         ///< [images, height, width, in]
  const T* packed = nullptr;    ///< the result of winograd_pack()
  T* y = nullptr;               ///< [images, height, width, out]
  const float* bias = nullptr;  ///< [out], or null; [16, out] with `level`, for each winograd_border() of a result
  /// [in], or null: what the pixels are less by, so that their sums, which are rounded, are small where the mean is
  /// large. `bias` gives it back; pixels outside count as 0 before and after.
  const float* level = nullptr;
};

/// Which of a pixel's neighbours lie outside: 8 where it is in the first row, 4 in the last, 2 in the first column, 1
/// in the last.
[[nodiscard]] constexpr std::int64_t winograd_border(const Winograd& conv, std::int64_t y, std::int64_t x) {
  return (y == 0 ? 8 : 0) + (y == conv.height - 1 ? 4 : 0) + (x == 0 ? 2 : 0) + (x == conv.width - 1 ? 1 : 0);
}

/// The images' tile rows from `begin` to `end`. A result's bits depend on no other's.
void winograd_forward(const Winograd& conv, const WinogradImages<float>& images, std::int64_t begin, std::int64_t end);
void winograd_forward(const Winograd& conv, const WinogradImages<std::uint16_t>& images, std::int64_t begin,
                      std::int64_t end);

/// What the gradient of the weights is made of, and which part of it.
template <class T>
struct WinogradPart {
  const T* x = nullptr;          ///< [images, height, width, in]
  const T* dy = nullptr;         ///< [images, height, width, out]
  std::int64_t part = 0;         ///< 0 to parts() - 1
  const float* level = nullptr;  ///< [in], or null: what x is less by
};

/// How many tile rows winograd_weight_sums() should take at a time: their x and dy stay in the cache for all parts. By
/// the shape alone, because the bits of the sums depend on it.
[[nodiscard]] std::int64_t winograd_summed_rows(const Winograd& conv, std::int64_t element_size);

/// One part's sums over the tile rows from `begin` to `end`, which are added to `sums`, [parts() points, in, out] of
/// it, unless `begin` is 0: then they are set.
void winograd_weight_sums(const Winograd& conv, const WinogradPart<float>& of, std::int64_t begin, std::int64_t end,
                          float* sums);
void winograd_weight_sums(const Winograd& conv, const WinogradPart<std::uint16_t>& of, std::int64_t begin,
                          std::int64_t end, float* sums);

/// The gradient of the weights from the sums of all parts, [points(), in, out]; `gradient` says where each one goes
/// (its data are written).
void winograd_unpack(const Winograd& conv, const float* sums, const WinogradWeights& gradient);

/// Sums over the pixels of one image: `dy` [pixels, channels] to `sums` [channels].
void pixel_sums(const float* dy, std::int64_t pixels, std::int64_t channels, float* sums);
void pixel_sums(const std::uint16_t* dy, std::int64_t pixels, std::int64_t channels, float* sums);

}  // namespace lockstep::nn
