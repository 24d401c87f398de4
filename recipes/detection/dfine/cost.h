// SPDX-License-Identifier: Apache-2.0
// The cost of a network in evaluation, measured with forward passes over small images.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <cstdint>
#include <string>

#include "detection/dfine/options.h"

namespace lockstep::detection::dfine {

/// The cost of one image in the fused network, without the parts needed only in training, counted as in the original
/// code. The matrix products of attention, up to 3 % more, are not counted.
struct Cost {
  std::int64_t parameters = 0;
  double macs = 0;   ///< multiply-adds of convolutions and linear layers
  double flops = 0;  ///< twice the macs, plus one operation per element of biases and activations
};

/// Counts the cost of an image of `side` x `side` pixels. The cost is a linear function of the number of positions, so
/// measuring two small images gives the exact cost of a large one. libtorch's random generator is left unchanged.
/// Shapes: `side` is a multiple of 32. Throws: the UsageErrors of Network.
[[nodiscard]] Cost cost_of(const Options& options, std::int64_t side);

/// The cost, as in "10.2 M parameters, 12.5 GMACs and 25.1 GFLOPs at 640 x 640 pixels".
[[nodiscard]] std::string to_text(const Cost& cost, std::int64_t side);

}  // namespace lockstep::detection::dfine
