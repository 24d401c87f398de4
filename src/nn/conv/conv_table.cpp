// SPDX-License-Identifier: Apache-2.0
#include "nn/conv/conv_table.h"

#include <algorithm>

#include "nn/conv/winograd.h"

namespace lockstep::nn {
namespace {

// Limits for tiles of 2x2. With fewer channels the transforms around the products take most of the time.
constexpr std::int64_t kFewestChannels = 32;
// Beyond this many pairs of channels the weights exceed the cache: 256 x 256 pairs at 16 points take 2 MB in bfloat16.
constexpr std::int64_t kMostPairs = 256 * 256;
// With fewer tiles the weights' transform costs more than the products save.
constexpr std::int64_t kFewestTiles = 512;
// bfloat16 weights are half as large. With at least kManyTiles tiles they may come from the next-level cache.
constexpr std::int64_t kMostPairsOfMany = 512 * 512;
constexpr std::int64_t kManyTiles = 1024;

// Tiles of 4x4 save more, so they pay off even with fewer channels, larger weights and fewer results.
constexpr std::int64_t kFewestChannelsOfLarge = 16;
constexpr std::int64_t kMostPairsOfLarge = 512 * 512;
constexpr std::int64_t kFewestLargeTiles = 64;

bool winograd_pays(const ConvShape& shape) {
  if (shape.in % 16 != 0 || shape.out % 16 != 0) return false;
  const std::int64_t fewest = std::min(shape.in, shape.out);
  const std::int64_t pairs = shape.in * shape.out;
  if (winograd_tile(shape) == 4) {
    return fewest >= kFewestChannelsOfLarge && pairs <= kMostPairsOfLarge && shape.large_tiles >= kFewestLargeTiles;
  }
  if (fewest < kFewestChannels) return false;
  if (pairs <= kMostPairs) return shape.tiles >= kFewestTiles;
  return shape.bfloat16 && pairs <= kMostPairsOfMany && shape.tiles >= kManyTiles;
}

}  // namespace

ConvProcessor conv_processor() {
  static const ConvProcessor here{.bfloat16_vectors = winograd_has_bfloat16(),
                                  .bfloat16_tiles = processor_has_bfloat16_tiles()};
  return here;
}

std::int64_t winograd_tile(const ConvShape& shape) {
  // A tile takes 36 products per pair of channels instead of 16. Saving an eighth pays for the larger transforms.
  const bool saves = 8 * 36 * shape.large_tiles <= 7 * 16 * shape.tiles;
  return !shape.bfloat16 && shape.large_tiles > 0 && saves ? 4 : 2;
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
