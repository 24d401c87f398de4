// SPDX-License-Identifier: Apache-2.0
// Which kernel a convolution takes: a table by shape, from measurements (docs/design/convolutions.md), so that a
// run's bits never depend on timing. Free of libtorch.
#pragma once

#include <cstdint>

namespace lockstep::nn {

enum class ConvKernel { kLibtorch, kThin, kWinograd, kDirect, kDepthwise };

/// A convolution in one group, or of each channel by itself.
struct ConvShape {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t tiles = 0;        ///< tiles of 2x2 results, of all images
  std::int64_t large_tiles = 0;  ///< tiles of 4x4 results, of all images
  bool bfloat16 = false;         ///< else float32
  bool plain = true;             ///< 3x3 with padding 1 and stride 1
  bool depthwise = false;        ///< each channel by itself; then `in` is `out`
};

/// What a processor has for bfloat16.
struct ConvProcessor {
  bool bfloat16_vectors = false;
  bool bfloat16_tiles = false;
};

/// This one's.
[[nodiscard]] ConvProcessor conv_processor();

[[nodiscard]] ConvKernel conv_kernel(const ConvShape& shape, const ConvProcessor& processor);

/// How many results are on a side of Winograd's tiles: 4 in float32, unless images are so small that more products are
/// wasted on what lies outside than are saved; else 2.
[[nodiscard]] std::int64_t winograd_tile(const ConvShape& shape);

/// Whether this processor multiplies matrices of that type with our kernels (nn/conv/direct.h).
[[nodiscard]] bool direct_serves(bool bfloat16, const ConvProcessor& processor);

}  // namespace lockstep::nn
