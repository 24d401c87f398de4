// SPDX-License-Identifier: Apache-2.0
// The two styles, one function each; draw.h says what they share.
#pragma once

#include "captcha/synthetic/draw.h"

namespace lockstep::captcha {

/// Letters of one colour, each turned and warped, crowded; dots and a curve of the same colour; all smoothed.
[[nodiscard]] Canvas render_simple(const std::string& label, const Painter& painter, SampleRandom& random);

/// Upright letters of several colours at jittered places, half of them with a shadow, under lines and points.
[[nodiscard]] Canvas render_custom(const std::string& label, const Painter& painter, SampleRandom& random);

/// Each channel between the two bounds, both included.
[[nodiscard]] Color random_color(SampleRandom& random, int low, int high);

}  // namespace lockstep::captcha
