// SPDX-License-Identifier: Apache-2.0
#include "nn/vector/kernel_table.h"

namespace lockstep::nn {

// Below this size, both layers only take the few microseconds of an autograd node.
bool dropout_is_faster(std::int64_t elements) { return elements >= 64; }

// Saving one bit per element instead of the output reduces memory traffic in backward if the output exceeds the cache.
bool relu_is_faster(std::int64_t elements) { return elements >= 1 << 18; }

// Without dropout the fused layer saves only a pass for the bias, and rows shorter than a vector cost more than that.
bool linear_relu_is_faster(const LinearShape& shape) {
  return shape.dropout || shape.channels >= 16 || shape.rows < 256;
}

bool layer_norm_is_faster(std::int64_t rows, std::int64_t width) { return rows * width >= 1536; }

bool cross_entropy_is_faster(std::int64_t elements, std::int64_t classes) { return elements * classes >= 64; }

}  // namespace lockstep::nn
