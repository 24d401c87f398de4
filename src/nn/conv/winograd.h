// SPDX-License-Identifier: Apache-2.0
// 3x3 convolutions, channels-last, using Winograd's F(2x2, 3x3) and, in float32, F(4x4, 3x3): a tile of 2x2 results
// takes 16 products per pair of channels instead of the direct sum's 36, a tile of 4x4 takes 36 instead of 144. So at a
// processor's peak they are up to 2.25 and 4 times as fast as a direct kernel. Source: Lavin and Gray, Fast Algorithms
// for Convolutional Neural Networks, 2016. Does not use libtorch.
//
// Images are cut into tiles of 2x2 (4x4) pixels, row by row; pixels outside count as 0. The 4x4 (6x6) input pixels of a
// tile give 16 (36) sums, called its points. Each point has its own matrix, which multiplies the channels of the point.
// A tile's results are sums of these products. The gradient of the weights sums over the tiles.
//
// Numbers at the extremes of float32's range do more harm than in a direct sum. If a pixel is infinite or NaN, all
// results of the tiles that it touches are NaN: up to 16 (64), instead of the direct sum's 9. A point is a sum of
// pixels with factors that add up to 4 (26), and a result is a sum of products with factors that add up to 16 (180):
// numbers above 1e36 overflow to NaN. Checking for such numbers would take another pass over the images; a NaN loss
// ends a run anyway.
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
  std::int64_t tile = 2;  ///< results along a tile's side: 2, or 4 in float32; bfloat16 has too few digits for 4

  [[nodiscard]] std::int64_t tile_columns() const { return (width + tile - 1) / tile; }
  [[nodiscard]] std::int64_t image_tile_rows() const { return (height + tile - 1) / tile; }
  [[nodiscard]] std::int64_t tile_rows() const { return images * image_tile_rows(); }  ///< tile rows of all images
  /// Returns the number of parts into which the weight gradient is divided for the threads. Each part has parts()
  /// points.
  [[nodiscard]] std::int64_t parts() const { return tile + 2; }
  [[nodiscard]] std::int64_t points() const { return parts() * parts(); }
  /// Returns the distance between the in x out matrices of two points. It is not a multiple of a large power of two,
  /// because the matrices would then share a cache set.
  [[nodiscard]] std::int64_t point_step() const { return in * out + 32; }
};

/// The layout of the weights: the weight of output channel o, input channel i, row r and column c is data[o out + i in
/// + r row + c column].
struct WinogradWeights {
  const float* data = nullptr;
  std::int64_t out = 0;
  std::int64_t in = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;

  /// Returns the weights of the convolution for the gradient of the input: rotated by 180 degrees, in and out swapped.
  [[nodiscard]] WinogradWeights turned() const {
    return {.data = data + 2 * row + 2 * column, .out = in, .in = out, .row = -row, .column = -column};
  }
};

/// True if this processor multiplies bfloat16 in vectors. The bfloat16 functions below need it; float32 runs anywhere.
[[nodiscard]] bool winograd_has_bfloat16();
/// True if the processor has matrix units for bfloat16 (AMX): a direct convolution is then faster.
[[nodiscard]] bool processor_has_bfloat16_tiles();

/// Packs the points of the weights for the products: `packed` has points() x point_step() elements. bfloat16 (as its 16
/// bits) is rounded after the transform.
void winograd_pack(const Winograd& conv, const WinogradWeights& weights, float* packed);
void winograd_pack(const Winograd& conv, const WinogradWeights& weights, std::uint16_t* packed);

/// The tensors of a convolution, in float or bfloat16's 16 bits.
template <class T>
struct WinogradImages {
  const T* x = nullptr;         ///< [images, height, width, in]
  const T* packed = nullptr;    ///< the result of winograd_pack()
  T* y = nullptr;               ///< [images, height, width, out]
  const float* bias = nullptr;  ///< [out], or null; [16, out] with `level`, for each winograd_border() of a result
  /// [in], or null: a level that is subtracted from the pixels, so that their rounded sums are small even if the mean
  /// is large. `bias` includes its effect; pixels outside stay 0.
  const float* level = nullptr;
};

/// Returns the borders that a pixel lies on, as bits: 8 first row, 4 last row, 2 first column, 1 last column.
[[nodiscard]] constexpr std::int64_t winograd_border(const Winograd& conv, std::int64_t y, std::int64_t x) {
  return (y == 0 ? 8 : 0) + (y == conv.height - 1 ? 4 : 0) + (x == 0 ? 2 : 0) + (x == conv.width - 1 ? 1 : 0);
}

/// Computes the images' tile rows from `begin` to `end`. Each result is computed independently of the others.
void winograd_forward(const Winograd& conv, const WinogradImages<float>& images, std::int64_t begin, std::int64_t end);
void winograd_forward(const Winograd& conv, const WinogradImages<std::uint16_t>& images, std::int64_t begin,
                      std::int64_t end);

/// The tensors for the gradient of the weights, and the part to compute.
template <class T>
struct WinogradPart {
  const T* x = nullptr;          ///< [images, height, width, in]
  const T* dy = nullptr;         ///< [images, height, width, out]
  std::int64_t part = 0;         ///< 0 to parts() - 1
  const float* level = nullptr;  ///< [in], or null: subtracted from x
};

/// Returns the number of tile rows that winograd_weight_sums() should take at a time, so that their x and dy stay in
/// the cache for all parts. It depends only on the shape, because the rounding of the sums depends on it.
[[nodiscard]] std::int64_t winograd_summed_rows(const Winograd& conv, std::int64_t element_size);

/// Adds one part's sums over the tile rows from `begin` to `end` to `sums`, [parts() points, in, out]; overwrites it if
/// `begin` is 0.
void winograd_weight_sums(const Winograd& conv, const WinogradPart<float>& source, std::int64_t begin, std::int64_t end,
                          float* sums);
void winograd_weight_sums(const Winograd& conv, const WinogradPart<std::uint16_t>& source, std::int64_t begin,
                          std::int64_t end, float* sums);

/// Turns the sums of all parts, [points(), in, out], into the gradient of the weights; `gradient` gives the layout, and
/// its data is overwritten.
void winograd_unpack(const Winograd& conv, const float* sums, const WinogradWeights& gradient);

/// Sums over the pixels of one image: `dy` [pixels, channels] to `sums` [channels].
void pixel_sums(const float* dy, std::int64_t pixels, std::int64_t channels, float* sums);
void pixel_sums(const std::uint16_t* dy, std::int64_t pixels, std::int64_t channels, float* sums);

}  // namespace lockstep::nn
