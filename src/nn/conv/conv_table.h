// SPDX-License-Identifier: Apache-2.0
// Which kernel a 3x3 convolution takes: a table by shape, from measurements (docs/design/convolutions.md), so that a
// run's bits never depend on timing. Free of libtorch.
#pragma once

#include <cstdint>

namespace lockstep::nn {

enum class ConvKernel { kLibtorch, kThin, kWinograd };

/// A 3x3 convolution with padding 1 and stride 1 in one group.
struct ConvShape {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t tiles = 0;  ///< tiles of 2x2 results, of all images
  bool bfloat16 = false;   ///< else float32
};

/// What a processor has for bfloat16.
struct ConvProcessor {
  bool bfloat16_vectors = false;
  bool bfloat16_tiles = false;
};

/// This one's.
[[nodiscard]] ConvProcessor conv_processor();

[[nodiscard]] ConvKernel conv_kernel(const ConvShape& shape, const ConvProcessor& processor);

/// Whether the number of channels alone rules the kernels out.
[[nodiscard]] bool conv_kernel_exists(std::int64_t in, std::int64_t out);

}  // namespace lockstep::nn
