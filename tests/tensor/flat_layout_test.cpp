// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/flat_layout.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::tensor {
namespace flat_layout_test {

using Strides = std::vector<std::int64_t>;

TEST(FlatLayout, StartsEachTensorOnACacheLine) {
  const FlatLayout floats =
      flat_layout({{"a", at::ones({3})}, {"b", at::ones({17})}, {"c", at::ones({0})}}, at::kFloat);
  EXPECT_EQ(floats.slots[0].offset, 0);
  EXPECT_EQ(floats.slots[1].offset, 16);
  EXPECT_EQ(floats.slots[2].offset, 48);
  EXPECT_EQ(floats.numel, 48);
  const FlatLayout halves =
      flat_layout({{"a", at::ones({3}, at::kBFloat16)}, {"b", at::ones({1}, at::kBFloat16)}}, at::kBFloat16);
  EXPECT_EQ(halves.slots[1].offset, 32);
}

TEST(FlatLayout, KeepsChannelsLastStridesAndMemoryOrder) {
  const at::Tensor weight =
      at::arange(3 * 16 * 3 * 3, at::kFloat).view({3, 16, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  const FlatLayout layout = flat_layout({{"pad", at::ones({1})}, {"w", weight}}, at::kFloat);
  EXPECT_EQ(layout.slots[1].strides, (Strides{144, 1, 48, 16}));
  const at::Tensor buffer = at::zeros({layout.numel});
  const at::Tensor view = flat_view(buffer, layout.slots[1]);
  view.copy_(weight);
  EXPECT_TRUE(view.equal(weight));
  EXPECT_EQ(buffer[16 + 1].item<float>(), weight.data_ptr<float>()[1]);
}

TEST(FlatLayout, MakesOverlappingTensorsContiguous) {
  const FlatLayout layout = flat_layout({{"e", at::ones({1, 3}).expand({2, 3})}}, at::kFloat);
  EXPECT_EQ(layout.slots[0].strides, (Strides{3, 1}));
}

TEST(FlatLayout, ViewsAPartOfALargerBuffer) {
  const at::Tensor whole = at::zeros({64});
  const FlatLayout layout = flat_layout({{"a", at::ones({2})}}, at::kFloat);
  flat_view(whole.narrow(0, 32, 32), layout.slots[0]).fill_(1);
  EXPECT_EQ(whole[32].item<float>(), 1);
  EXPECT_EQ(whole[0].item<float>(), 0);
}

TEST(FlatLayout, RefusesAnotherDtype) {
  EXPECT_THROW((void)flat_layout({{"a", at::ones({2}, at::kDouble)}}, at::kFloat), UsageError);
}

}  // namespace flat_layout_test
}  // namespace lockstep::tensor
