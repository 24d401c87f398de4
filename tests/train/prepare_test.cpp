// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/prepare.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>

namespace lockstep {
namespace prepare_test {

TEST(ToChannelsLast, OneChannelGetsTheStridesThatTellTheLayout) {
  const at::Tensor images = at::rand({2, 1, 6, 8});
  ASSERT_EQ(images.suggest_memory_format(), at::MemoryFormat::Contiguous);
  const at::Tensor changed = to_channels_last(images);
  EXPECT_EQ(changed.suggest_memory_format(), at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(changed.equal(images));
}

TEST(ToChannelsLast, WhatIsNoImageComesBackAsItIs) {
  const at::Tensor rows = at::rand({2, 3});
  EXPECT_TRUE(to_channels_last(rows).is_same(rows));
}

TEST(UseChannelsLast, TheFirstLayersWeightsAreMarkedToo) {
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(1, 4, 3));
  const at::Tensor before = conv->weight.detach().clone();
  use_channels_last(*conv);
  EXPECT_EQ(conv->weight.suggest_memory_format(), at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(conv->weight.equal(before));
}

TEST(PrepareBatch, MarksImagesAsChannelsLastOnlyWhereThatIsAsked) {
  const c10::Device cpu(c10::kCPU);
  Batch batch;
  batch.data = at::rand({2, 3, 4, 4});
  prepare_batch(batch, cpu, false);
  EXPECT_EQ(batch.data.suggest_memory_format(), at::MemoryFormat::Contiguous);
  prepare_batch(batch, cpu, true);
  EXPECT_EQ(batch.data.suggest_memory_format(), at::MemoryFormat::ChannelsLast);
}

TEST(MoveTo, TakesDataAndTargetWithTheirTypesAndLeavesWhatIsThereAlready) {
  Batch batch;
  batch.data = at::rand({2, 3});
  const at::Tensor before = batch.data;
  move_to(batch, c10::Device(c10::kCPU));
  EXPECT_TRUE(batch.data.is_same(before));
  EXPECT_FALSE(batch.target.defined());
  batch.target = at::ones({2}, at::kLong);
  move_to(batch, c10::Device(c10::DeviceType::Meta));
  EXPECT_TRUE(batch.data.is_meta());
  EXPECT_TRUE(batch.target.is_meta());
  EXPECT_EQ(batch.target.scalar_type(), at::kLong);
}

}  // namespace prepare_test
}  // namespace lockstep
