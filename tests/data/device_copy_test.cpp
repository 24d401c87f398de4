// SPDX-License-Identifier: Apache-2.0
// Batches that the workers copy to a GPU, each on its own stream.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/full.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "lockstep/data/loader.h"
#include "lockstep/tensor/device_graph.h"
#include "support/gpu.h"

namespace lockstep {
namespace {

TEST(DeviceCopy, BringsTheBatchesOfAProcessorsLoader) {
  LOCKSTEP_NEEDS_GPU();
  const auto set = make_dataset(257, [](std::int64_t i) {
    return Sample{at::full({3, 64, 64}, static_cast<double>(i)), at::full({}, i, at::kLong), {}};
  });
  for (const std::int64_t workers : {0, 1, 3}) {
    DataLoader loader(set, {.batch_size = 16,
                            .workers = workers,
                            .shuffle = true,
                            .pin_memory = true,
                            .device = c10::Device(c10::kCUDA, 0)});
    std::int64_t seen = 0;
    at::Tensor sum;
    for (auto& batch : loader.epoch(1)) {
      ASSERT_TRUE(batch.data.is_cuda());
      ASSERT_TRUE(batch.target.is_cuda());
      // The GPU computes while the next copies run.
      const at::Tensor wrong = batch.data.amax({1, 2, 3}).sub(batch.target).abs().sum();
      sum = sum.defined() ? sum.add(wrong) : wrong;
      for (const std::int64_t index : batch.indices) seen += index;
    }
    EXPECT_EQ(sum.item<float>(), 0) << workers;
    EXPECT_EQ(seen, 257 * 256 / 2) << workers;
  }
}

TEST(DeviceCopy, BringsABatchThatHasOnlyATarget) {
  LOCKSTEP_NEEDS_GPU();
  const auto set = make_dataset(4, [](std::int64_t i) { return Sample{at::full({2}, i, at::kLong), {}, {}}; });
  const auto collate = [](const std::vector<Sample>& samples) { return Batch{.target = samples.front().data}; };
  for (const std::int64_t workers : {0, 1}) {
    DataLoader loader(set,
                      {.batch_size = 2, .workers = workers, .device = c10::Device(c10::kCUDA, 0), .collate = collate});
    auto pass = loader.epoch(0);
    const Batch* batch = pass.next();
    ASSERT_NE(batch, nullptr);
    EXPECT_FALSE(batch->data.defined());
    ASSERT_TRUE(batch->target.is_cuda());
    EXPECT_EQ(batch->target.sum().item<std::int64_t>(), 0) << workers;
  }
}

/// Each worker's DeviceCopy takes a stream of this pool, which hands out its streams repeatedly.
TEST(DeviceCopy, NoWorkersStreamIsTheRecordedOne) {
  LOCKSTEP_NEEDS_GPU();
  const auto graph = tensor::make_device_graph();
  ASSERT_NE(graph, nullptr);
  const c10::Device gpu(c10::kCUDA, 0);
  const c10::impl::VirtualGuardImpl gpus(c10::kCUDA);
  const std::shared_ptr<void> on_recorded = graph->enter();
  const c10::Stream recorded = gpus.getStream(gpu);
  ASSERT_NE(recorded, gpus.getDefaultStream(gpu));
  for (int i = 0; i < 40; ++i) EXPECT_NE(gpus.getStreamFromGlobalPool(gpu), recorded) << "stream " << i;
}

}  // namespace
}  // namespace lockstep
