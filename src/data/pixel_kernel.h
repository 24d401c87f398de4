// SPDX-License-Identifier: Apache-2.0
// Vector kernels for rows of 8-bit pixels with 1 or 3 channels. Does not use libtorch.
#pragma once

#include <array>
#include <cstdint>

#include "lockstep/data/picture.h"

namespace lockstep::data {

/// Converts RGB pixels to luma, as Pillow rounds it. Source: ITU-R BT.601 in 16-bit fixed point
void rgb_to_gray(const std::uint8_t* rgb, std::size_t pixels, std::uint8_t* gray) noexcept;

/// Reverses the order of the pixels in one row, in place.
void mirror_row(std::uint8_t* row, std::int64_t pixels, std::int64_t channels);

/// Undoes PNG's Paeth filter, in place, for pixels of 3 or 4 bytes: adds to each byte the left, upper or upper left
/// neighbour, whichever is nearest to left + upper - upper left. 4 bytes must be readable from the start of each pixel.
void undo_paeth(std::uint8_t* row, const std::uint8_t* above, std::size_t bytes, int channels);

/// The conversion of a value 0 .. 255: (value / 255 - mean) / deviation, each step rounded to float32, as in torch.
struct FloatRule {
  std::array<float, 3> mean{};
  std::array<float, 3> deviation{1.0F, 1.0F, 1.0F};
};

/// Writes channels x height x width floats.
void to_float_planes(const PixelView& view, const FloatRule& rule, float* out) noexcept;

/// The weights by which one axis is resampled: output i is the sum of `count[i]` inputs starting at `first[i]`, each
/// times its weight. Weights have 22 fractional bits.
struct ResampleAxis {
  std::vector<std::int32_t> first;
  std::vector<std::int32_t> count;
  std::vector<std::int32_t> weights;  ///< `taps` for each output
  std::int32_t taps = 0;

  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(first.size()); }
};

/// Rows of bytes, in which 16 bytes are readable and writable at any multiple of 16.
struct ByteRows {
  std::uint8_t* data = nullptr;
  std::int64_t stride = 0;  ///< a multiple of 16
};

/// Resamples rows [first, first + count) of `view` along x, into rows 0 .. count of `out`, which has room for `count`
/// rows, rounded up to a multiple of 16.
void resample_rows(const PixelView& view, std::int64_t first, std::int64_t count, const ResampleAxis& x, ByteRows out);

/// Resamples rows along y: row 0 of `in` is row `skipped` of the axis. Writes axis.size() rows of `row_bytes`.
struct ColumnPass {
  const std::uint8_t* in;
  std::int64_t stride;
  std::int64_t skipped;
  std::int64_t row_bytes;
  std::uint8_t* out;
};
void resample_columns(const ColumnPass& pass, const ResampleAxis& axis);

}  // namespace lockstep::data
