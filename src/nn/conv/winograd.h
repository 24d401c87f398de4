// SPDX-License-Identifier: Apache-2.0
// 3x3 convolutions, channels-last, by Winograd's F(2x2, 3x3) and, in float32, F(4x4, 3x3): a tile of 2x2 results takes
// 16 products a pair of channels instead of the direct sum's 36, one of 4x4 takes 36 instead of 144. So at a
// processor's peak it beats a direct kernel by up to 2.25 and 4. Source: Lavin and Gray, Fast Algorithms for
// Convolutional Neural Networks, 2016. Free of libtorch.
//
// Images are cut into tiles of 2x2 (4x4) pixels, row by row; pixels outside count as 0. Each tile's 4x4 (6x6)
// surroundings give 16 (36) sums, its points; each point has its own matrix, which multiplies the point's channels, and
// a tile's results are sums of the products. The gradient of the weights sums over the tiles.
//
// Numbers at the ends of float32's range cost more than in a direct sum. If a pixel is infinite or NaN, all results of
// the tiles that it touches are NaN: up to 16 (64), instead of the direct sum's 9. A point is a sum of pixels with
// factors that add up to 4 (26), and a result one of products with up to 16 (180): above 1e36 they overflow to NaN. A
// search for such numbers would be one more pass over the images; a loss that is NaN ends a run in either case.
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
  std::int64_t tile = 2;  ///< results on a tile's side: 2, or 4, for which bfloat16 has too few digits

  [[nodiscard]] std::int64_t tile_columns() const { return (width + tile - 1) / tile; }
  [[nodiscard]] std::int64_t image_tile_rows() const { return (height + tile - 1) / tile; }
  [[nodiscard]] std::int64_t tile_rows() const { return images * image_tile_rows(); }  ///< tile rows of all images
  /// Returns the number of parts, of as many points each, into which threads divide the gradient of the weights.
  [[nodiscard]] std::int64_t parts() const { return tile + 2; }
  [[nodiscard]] std::int64_t points() const { return parts() * parts(); }
  /// Returns the distance between the matrices of in x out of two points. Multiples of a power of two would share a set
  /// of the caches, so it is none.
  [[nodiscard]] std::int64_t point_step() const { return in * out + 32; }
};

/// The layout of the weights: an output, an input channel, a row and a column of the 3x3 are at data + o out + i in +
/// ...
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

/// Packs the points of the weights for the products: `packed` has points() x point_step() elements. For bfloat16 (as
/// its 16 bits) they are rounded after the transform.
void winograd_pack(const Winograd& conv, const WinogradWeights& weights, float* packed);
void winograd_pack(const Winograd& conv, const WinogradWeights& weights, std::uint16_t* packed);

/// The tensors of a convolution, in float or bfloat16's 16 bits.
template <class T>
struct WinogradImages {
  const T* x = nullptr;         ///< [images, height, width, in]
  const T* packed = nullptr;    ///< the result of winograd_pack()
  T* y = nullptr;               ///< [images, height, width, out]
  const float* bias = nullptr;  ///< [out], or null; [16, out] with `level`, for each winograd_border() of a result
  /// [in], or null: subtracted from the pixels, so that their rounded sums are small even if the mean is large. `bias`
  /// adds it again; pixels outside count as 0 before and after.
  const float* level = nullptr;
};

/// Returns the borders that a pixel is at, as bits: 8 for the first row, 4 the last, 2 the first column, 1 the last.
[[nodiscard]] constexpr std::int64_t winograd_border(const Winograd& conv, std::int64_t y, std::int64_t x) {
  return (y == 0 ? 8 : 0) + (y == conv.height - 1 ? 4 : 0) + (x == 0 ? 2 : 0) + (x == conv.width - 1 ? 1 : 0);
}

/// Computes the images' tile rows from `begin` to `end`. A result's bits do not depend on any other.
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
/// the cache for all parts. It depends on the shape alone, because the bits of the sums depend on it.
[[nodiscard]] std::int64_t winograd_summed_rows(const Winograd& conv, std::int64_t element_size);

/// Adds one part's sums over the tile rows from `begin` to `end` to `sums`, which is [parts() points, in, out]; sets
/// them if `begin` is 0.
void winograd_weight_sums(const Winograd& conv, const WinogradPart<float>& source, std::int64_t begin, std::int64_t end,
                          float* sums);
void winograd_weight_sums(const Winograd& conv, const WinogradPart<std::uint16_t>& source, std::int64_t begin,
                          std::int64_t end, float* sums);

/// Turns the sums of all parts, [points(), in, out], into the gradient of the weights; `gradient` gives its layout, and
/// its data are written.
void winograd_unpack(const Winograd& conv, const float* sums, const WinogradWeights& gradient);

/// Sums over the pixels of one image: `dy` [pixels, channels] to `sums` [channels].
void pixel_sums(const float* dy, std::int64_t pixels, std::int64_t channels, float* sums);
void pixel_sums(const std::uint16_t* dy, std::int64_t pixels, std::int64_t channels, float* sums);

}  // namespace lockstep::nn
