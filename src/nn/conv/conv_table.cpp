// SPDX-License-Identifier: Apache-2.0
#include "nn/conv/conv_table.h"

#include "nn/conv/winograd.h"

namespace lockstep::nn {
namespace {

// Fewer channels are bound by the sums around the products.
constexpr std::int64_t kFewestChannels = 32;
// More have weights that leave the cache: 256 x 256 at 16 points are 2 MB of bfloat16.
constexpr std::int64_t kMostPairs = 256 * 256;
// With fewer tiles the weights' transform costs what the products save.
constexpr std::int64_t kFewestTiles = 512;
// bfloat16's weights are half as large; from so many tiles on they may come from the next cache.
constexpr std::int64_t kMostPairsOfMany = 512 * 512;
constexpr std::int64_t kManyTiles = 1024;

bool winograd_pays(const ConvShape& shape) {
  if (shape.in < kFewestChannels || shape.out < kFewestChannels || shape.in % 16 != 0 || shape.out % 16 != 0) {
    return false;
  }
  if (shape.in * shape.out <= kMostPairs) return shape.tiles >= kFewestTiles;
  return shape.bfloat16 && shape.in * shape.out <= kMostPairsOfMany && shape.tiles >= kManyTiles;
}

}  // namespace

ConvProcessor conv_processor() {
  static const ConvProcessor here{.bfloat16_vectors = winograd_has_bfloat16(),
                                  .bfloat16_tiles = processor_has_bfloat16_tiles()};
  return here;
}

bool direct_serves(bool bfloat16, const ConvProcessor& processor) {
  return !bfloat16 || (processor.bfloat16_vectors && !processor.bfloat16_tiles);
}

ConvKernel conv_kernel(const ConvShape& shape, const ConvProcessor& processor) {
  if (shape.depthwise) return shape.out % 8 == 0 ? ConvKernel::kDepthwise : ConvKernel::kLibtorch;
  if (shape.in == 1 && shape.plain) return shape.out % 8 == 0 ? ConvKernel::kThin : ConvKernel::kLibtorch;
  if (!direct_serves(shape.bfloat16, processor)) return ConvKernel::kLibtorch;
  return shape.plain && winograd_pays(shape) ? ConvKernel::kWinograd : ConvKernel::kDirect;
}

}  // namespace lockstep::nn
