// SPDX-License-Identifier: Apache-2.0
// What a network costs in evaluation, counted in forwards of small pictures.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <cstdint>
#include <string>

#include "detection/dfine/options.h"

namespace lockstep::detection::dfine {

/// Of one picture, as the origin counts: of the fused network without what only training needs. The products of
/// attention, up to 3 % more, are not among its numbers, nor here.
struct Cost {
  std::int64_t parameters = 0;
  double macs = 0;   ///< multiplications with additions, of convolutions and linear layers
  double flops = 0;  ///< twice those, and an operation for each element of biases and activations
};

/// Counts for a picture of `side` x `side` pixels. The count is a linear function of the number of positions, so that
/// two small pictures say what a large one costs, exactly. libtorch's random generator is left as it was.
/// Shapes: `side` is a multiple of 32. Throws: UsageError as Network.
[[nodiscard]] Cost cost_of(const Options& options, std::int64_t side);

/// "10.2 M parameters, 12.5 GMACs and 25.1 GFLOPs at 640 x 640 pixels"
[[nodiscard]] std::string to_text(const Cost& cost, std::int64_t side);

}  // namespace lockstep::detection::dfine
