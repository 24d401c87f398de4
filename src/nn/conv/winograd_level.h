// SPDX-License-Identifier: Apache-2.0
// Winograd in bfloat16 subtracts the level of each channel from its input before computing the points, and adds it back
// to the results. Points are sums of up to 16 pixels, rounded to 8 bits: if a channel's mean is many times its standard
// deviation, rounding the mean would cause most of the error. The convolution of a constant needs no points. So a
// constant for each channel, its level, is subtracted, and the effect of the level is added in float32. Pixels outside
// the image are 0 and have no level. Does not use libtorch.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/conv/winograd.h"

namespace lockstep::nn {

/// Returns the levels of the channels of `x` [pixels, channels], in bfloat16's 16 bits: the mean of a sample of pixels,
/// or 0 if the mean does not exceed the standard deviation. Empty if all levels are 0.
[[nodiscard]] std::vector<float> winograd_level(const std::uint16_t* x, std::int64_t pixels, std::int64_t channels);

/// Returns the numbers to add to the results, [16, out]: for each winograd_border(), the bias (or 0) plus the level's
/// effect.
[[nodiscard]] std::vector<float> winograd_level_bias(const Winograd& conv, const WinogradWeights& weights,
                                                     const std::vector<float>& level, const float* bias);

/// Adds to `sums` [9, out], for each of the 3x3 weights, the sum of one image's `dy` [height, width, out] over the
/// results for which the weight's pixel is inside the image.
void winograd_add_tap_sums(const Winograd& conv, const std::uint16_t* dy, double* sums);

/// Adds the effect of the level, computed from the sums over all images, to the gradient of the weights.
void winograd_add_level(const Winograd& conv, const std::vector<float>& level, const std::vector<double>& sums,
                        const WinogradWeights& gradient);

}  // namespace lockstep::nn
