// SPDX-License-Identifier: Apache-2.0
#include "nn/vector/kernel_table.h"

#include <gtest/gtest.h>

namespace lockstep::nn {
namespace kernel_table_test {

TEST(KernelTable, LeavesTinyTensorsToLibtorch) {
  EXPECT_FALSE(dropout_is_faster(63));
  EXPECT_TRUE(dropout_is_faster(64));
  EXPECT_FALSE(relu_is_faster(32768));
  EXPECT_TRUE(relu_is_faster(262144));
  EXPECT_FALSE(layer_norm_is_faster(1, 1024));
  EXPECT_FALSE(layer_norm_is_faster(16, 32));
  EXPECT_TRUE(layer_norm_is_faster(16, 100));
  EXPECT_FALSE(cross_entropy_is_faster(1, 36));
  EXPECT_TRUE(cross_entropy_is_faster(16, 4));
}

TEST(KernelTable, LeavesManyRowsOfFewChannelsToLibtorchWhereThereIsNoDropout) {
  EXPECT_FALSE(linear_relu_is_faster({.rows = 512, .channels = 8}));
  EXPECT_TRUE(linear_relu_is_faster({.rows = 512, .channels = 8, .dropout = true}));
  EXPECT_TRUE(linear_relu_is_faster({.rows = 64, .channels = 8}));
  EXPECT_TRUE(linear_relu_is_faster({.rows = 512, .channels = 36}));
}

}  // namespace kernel_table_test
}  // namespace lockstep::nn
