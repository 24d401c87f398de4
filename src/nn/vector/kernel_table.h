// SPDX-License-Identifier: Apache-2.0
// The sizes above which a kernel in this folder is faster than libtorch's, forward and backward together, as measured
// (docs/design/fused_layers.md). With a table by shape rather than timing at run time, results depend only on the run's
// settings. Does not use libtorch.
//
// BatchNormReLU2d and MultiLabelSoftMarginLoss have no entry: they were faster at every size.
#pragma once

#include <cstdint>

namespace lockstep::nn {

[[nodiscard]] bool dropout_is_faster(std::int64_t elements);
[[nodiscard]] bool relu_is_faster(std::int64_t elements);

struct LinearShape {
  std::int64_t rows = 0;
  std::int64_t channels = 0;  ///< output channels
  bool dropout = false;
};
[[nodiscard]] bool linear_relu_is_faster(const LinearShape& shape);

/// This entry applies to float32. For bfloat16, libtorch 1.13 has no layer norm with float32 weights to compare with.
[[nodiscard]] bool layer_norm_is_faster(std::int64_t rows, std::int64_t width);
[[nodiscard]] bool cross_entropy_is_faster(std::int64_t elements, std::int64_t classes);

}  // namespace lockstep::nn
