// SPDX-License-Identifier: Apache-2.0
// What Winograd in bfloat16 takes from its input before the points, and how it is given back. Points are sums of up to
// 16 pixels, rounded to 8 bits: where a channel's mean is many times its deviation, the rounding of the mean would be
// most of the error. A convolution of a constant is known without points, so each channel is taken less a constant of
// its own, its level, and the level's part is added in float32. Pixels outside the image are 0 and have no level. Free
// of libtorch.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/conv/winograd.h"

namespace lockstep::nn {

/// The levels of the channels of bfloat16's 16 bits, `x` [pixels, channels]: the mean over some of the pixels, spread
/// over all, of a channel where it is more than the deviation, else 0. Empty where all are 0: then none is worth
/// taking.
[[nodiscard]] std::vector<float> winograd_level(const std::uint16_t* x, std::int64_t pixels, std::int64_t channels);

/// What is added to the results: [16, out], for each winograd_border() the bias (or null) and the level's part.
[[nodiscard]] std::vector<float> winograd_level_bias(const Winograd& conv, const WinogradWeights& weights,
                                                     const std::vector<float>& level, const float* bias);

/// The sums of `dy` [height, width, out] of one image over the pixels that each of the 3x3 weights multiplies with a
/// pixel inside: added to `sums` [9, out].
void winograd_add_tap_sums(const Winograd& conv, const std::uint16_t* dy, double* sums);

/// Adds the level's part to the gradient of the weights (its data are written), from winograd_add_tap_sums() over all
/// images.
void winograd_add_level(const Winograd& conv, const std::vector<float>& level, const std::vector<double>& sums,
                        const WinogradWeights& gradient);

}  // namespace lockstep::nn
