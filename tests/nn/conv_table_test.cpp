// SPDX-License-Identifier: Apache-2.0
#include "nn/conv/conv_table.h"

#include <gtest/gtest.h>

namespace lockstep::nn {
namespace conv_table_test {

constexpr ConvProcessor kPlain{};
constexpr ConvProcessor kVectors{.bfloat16_vectors = true};
constexpr ConvProcessor kTiles{.bfloat16_vectors = true, .bfloat16_tiles = true};

TEST(ConvTable, OneChannelTakesTheThinKernelAtAnySize) {
  EXPECT_EQ(conv_kernel({.in = 1, .out = 8, .tiles = 1}, kPlain), ConvKernel::kThin);
  EXPECT_EQ(conv_kernel({.in = 1, .out = 9, .tiles = 1}, kPlain), ConvKernel::kLibtorch);
}

TEST(ConvTable, WinogradIsForThirtyTwoChannelsAndMore) {
  EXPECT_EQ(conv_kernel({.in = 32, .out = 32, .tiles = 1000}, kPlain), ConvKernel::kWinograd);
  EXPECT_EQ(conv_kernel({.in = 16, .out = 64, .tiles = 1000}, kPlain), ConvKernel::kDirect);
  EXPECT_EQ(conv_kernel({.in = 64, .out = 16, .tiles = 1000}, kPlain), ConvKernel::kDirect);
  EXPECT_EQ(conv_kernel({.in = 40, .out = 64, .tiles = 1000}, kPlain), ConvKernel::kDirect);
}

TEST(ConvTable, FewTilesDoNotPayForTheWeights) {
  EXPECT_EQ(conv_kernel({.in = 64, .out = 64, .tiles = 511}, kPlain), ConvKernel::kDirect);
  EXPECT_EQ(conv_kernel({.in = 64, .out = 64, .tiles = 512}, kPlain), ConvKernel::kWinograd);
}

TEST(ConvTable, LargeWeightsAreMultipliedDirectlyUnlessThereAreManyTilesInBfloat16) {
  EXPECT_EQ(conv_kernel({.in = 256, .out = 256, .tiles = 5000}, kPlain), ConvKernel::kWinograd);
  EXPECT_EQ(conv_kernel({.in = 256, .out = 512, .tiles = 5000}, kPlain), ConvKernel::kDirect);
  EXPECT_EQ(conv_kernel({.in = 512, .out = 512, .tiles = 1024, .bfloat16 = true}, kVectors), ConvKernel::kWinograd);
  EXPECT_EQ(conv_kernel({.in = 512, .out = 512, .tiles = 1023, .bfloat16 = true}, kVectors), ConvKernel::kDirect);
  EXPECT_EQ(conv_kernel({.in = 512, .out = 1024, .tiles = 9999, .bfloat16 = true}, kVectors), ConvKernel::kDirect);
}

TEST(ConvTable, TilesOfFourResultsAreForFloat32AndImagesThatFillThem) {
  EXPECT_EQ(winograd_tile({.tiles = 64, .large_tiles = 16}), 4);
  EXPECT_EQ(winograd_tile({.tiles = 64, .large_tiles = 16, .bfloat16 = true}), 2);
  // 5x6 pixels: 9 tiles of 2x2, or 4 that are two thirds empty. 9x9: 25, or 9.
  EXPECT_EQ(winograd_tile({.tiles = 9, .large_tiles = 4}), 2);
  EXPECT_EQ(winograd_tile({.tiles = 25, .large_tiles = 9}), 4);
}

TEST(ConvTable, TilesOfFourResultsPayForFewerChannelsLargerWeightsAndFewerResults) {
  const auto of = [](std::int64_t in, std::int64_t out, std::int64_t large_tiles) {
    return conv_kernel({.in = in, .out = out, .tiles = 4 * large_tiles, .large_tiles = large_tiles}, kPlain);
  };
  EXPECT_EQ(of(16, 16, 64), ConvKernel::kWinograd);
  EXPECT_EQ(of(512, 512, 64), ConvKernel::kWinograd);
  EXPECT_EQ(of(64, 64, 63), ConvKernel::kDirect);
  EXPECT_EQ(of(8, 16, 1000), ConvKernel::kDirect);
  EXPECT_EQ(of(24, 32, 1000), ConvKernel::kDirect);
  EXPECT_EQ(of(512, 528, 1000), ConvKernel::kDirect);
}

TEST(ConvTable, BfloatTakesWinogradOnProcessorsWithVectorsOfItAndWithoutMatrixUnits) {
  const ConvShape shape{.in = 64, .out = 64, .tiles = 1000, .bfloat16 = true};
  EXPECT_EQ(conv_kernel(shape, kPlain), ConvKernel::kLibtorch);
  EXPECT_EQ(conv_kernel(shape, kVectors), ConvKernel::kWinograd);
  EXPECT_EQ(conv_kernel(shape, kTiles), ConvKernel::kLibtorch);
}

TEST(ConvTable, OtherKernelsThanThreeByThreeAreMultipliedDirectly) {
  const ConvShape shape{.in = 64, .out = 64, .tiles = 1000, .bfloat16 = true, .plain = false};
  EXPECT_EQ(conv_kernel(shape, kPlain), ConvKernel::kLibtorch);
  EXPECT_EQ(conv_kernel(shape, kVectors), ConvKernel::kDirect);
  EXPECT_EQ(conv_kernel(shape, kTiles), ConvKernel::kLibtorch);
  EXPECT_EQ(conv_kernel({.in = 1, .out = 9, .plain = false}, kPlain), ConvKernel::kDirect);
}

TEST(ConvTable, EachChannelByItselfHasItsKernelOnAnyProcessor) {
  EXPECT_EQ(conv_kernel({.in = 8, .out = 8, .bfloat16 = true, .depthwise = true}, kTiles), ConvKernel::kDepthwise);
  EXPECT_EQ(conv_kernel({.in = 12, .out = 12, .depthwise = true}, kPlain), ConvKernel::kLibtorch);
}

}  // namespace conv_table_test
}  // namespace lockstep::nn
