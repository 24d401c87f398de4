// SPDX-License-Identifier: Apache-2.0
// A 3x3 convolution from one channel to many, channels-last, and the gradient of its weights. It does only a few
// products per stored value, so it should run at memory speed; general kernels pad the channel to a vector. Does not
// use libtorch.
#pragma once

#include <cstdint>

namespace lockstep::nn {

struct ThinConv {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;       ///< channels of the output; a multiple of 8
  const float* weights = nullptr;  ///< [9, channels]: the taps row by row
  const float* bias = nullptr;     ///< [channels]
};

/// Convolves one image: `padded` is [height + 2, width + 2] with a border of zeros, `out` [height, width, channels].
void thin_conv(const ThinConv& conv, const float* padded, float* out);
/// Convolves one image, with results rounded to bfloat16 (as its 16 bits).
void thin_conv(const ThinConv& conv, const float* padded, std::uint16_t* out);

/// The gradients that thin_conv_backward() computes for one image: `weights` [9, channels] and `bias` [channels] are
/// overwritten. `grad` has the shape of `out` above. The weights and bias of `conv` are not read.
struct ThinConvSums {
  float* weights = nullptr;
  float* bias = nullptr;
};
void thin_conv_backward(const ThinConv& conv, const float* padded, const float* grad, const ThinConvSums& sums);
void thin_conv_backward(const ThinConv& conv, const float* padded, const std::uint16_t* grad, const ThinConvSums& sums);

}  // namespace lockstep::nn
