// SPDX-License-Identifier: Apache-2.0
// Winograd in bfloat16 subtracts the level of each channel from its input before the points, and adds it to the
// results. Points are sums of up to 16 pixels, rounded to 8 bits: if a channel's mean is many times its deviation, the
// rounding of the mean would be most of the error. The convolution of a constant needs no points, so a constant of each
// channel, its level, is subtracted, and the level's part is added in float32. Pixels outside the image are 0 and have
// no level. Free of libtorch.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/conv/winograd.h"

namespace lockstep::nn {

/// Returns the levels of the channels of `x` [pixels, channels], in bfloat16's 16 bits: the mean of a sample of pixels,
/// or 0 if it is not more than the deviation. Empty if all are 0: then no channel needs one.
[[nodiscard]] std::vector<float> winograd_level(const std::uint16_t* x, std::int64_t pixels, std::int64_t channels);

/// Returns the numbers to add to the results: [16, out], for each winograd_border() the bias (or 0) and the level's
/// part.
[[nodiscard]] std::vector<float> winograd_level_bias(const Winograd& conv, const WinogradWeights& weights,
                                                     const std::vector<float>& level, const float* bias);

/// Adds to `sums` [9, out], for each of the 3x3 weights, the sums of `dy` [height, width, out] of one image over the
/// pixels for which the weight's pixel is inside.
void winograd_add_tap_sums(const Winograd& conv, const std::uint16_t* dy, double* sums);

/// Adds the level's part to the gradient of the weights, and writes its data, from the sums over all images.
void winograd_add_level(const Winograd& conv, const std::vector<float>& level, const std::vector<double>& sums,
                        const WinogradWeights& gradient);

}  // namespace lockstep::nn
