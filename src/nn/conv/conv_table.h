// SPDX-License-Identifier: Apache-2.0
// Chooses the kernel of a convolution: from a table by shape, based on measurements (docs/design/convolutions.md), so
// that the results of a run never depend on timing. Does not use libtorch.
#pragma once

#include <cstdint>

namespace lockstep::nn {

enum class ConvKernel { kLibtorch, kThin, kWinograd, kDirect, kDepthwise };

/// The shape of a convolution that has one group or is depthwise.
struct ConvShape {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t tiles = 0;        ///< number of tiles of 2x2 results in all images
  std::int64_t large_tiles = 0;  ///< number of tiles of 4x4 results in all images
  bool bfloat16 = false;         ///< bfloat16; false: float32
  bool plain = true;             ///< kernel 3x3 with padding 1 and stride 1
  bool depthwise = false;        ///< each channel is convolved separately, so `in` is `out`
};

/// A processor's bfloat16 instructions.
struct ConvProcessor {
  bool bfloat16_vectors = false;
  bool bfloat16_tiles = false;
};

/// Returns this processor's instructions.
[[nodiscard]] ConvProcessor conv_processor();

[[nodiscard]] ConvKernel conv_kernel(const ConvShape& shape, const ConvProcessor& processor);

/// Returns the number of results along a side of Winograd's tiles: 4 in float32, unless the images are so small that
/// large tiles waste more products outside the images than they save; else 2.
[[nodiscard]] std::int64_t winograd_tile(const ConvShape& shape);

/// True if Lockstep's kernels (nn/conv/direct.h) multiply matrices of this type on the processor.
[[nodiscard]] bool direct_serves(bool bfloat16, const ConvProcessor& processor);

}  // namespace lockstep::nn
