// SPDX-License-Identifier: Apache-2.0
// NCCL between several ranks. They share one GPU (LOCKSTEP_SHARE_GPUS=nccl): communicators, streams, events and kernels
// are those of several GPUs, only the messages go through sockets.
#include <gmock/gmock.h>
#include <signal.h>

#include <ATen/ATen.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/group_check.h"
#include "support/gpu.h"
#include "support/run_ranks.h"
#include "support/tree_model.h"

namespace lockstep::comm {
namespace gpu_ranks_test {

using ::lockstep::testing::current_test;
using ::lockstep::testing::RankEnd;
using ::lockstep::testing::RankProcesses;
using ::lockstep::testing::RanksOptions;
using ::lockstep::testing::run_ranks;
using ::testing::HasSubstr;

RanksOptions ranks_on_one_gpu(int world, const std::string& timeout = "60") {
  return {.world = world,
          .env = {{"LOCKSTEP_DEVICE", "cuda"}, {"LOCKSTEP_SHARE_GPUS", "nccl"}, {"LOCKSTEP_TIMEOUT", timeout}}};
}

at::Tensor on_gpu(const Job& job, const at::Tensor& tensor) { return tensor.to(job.device()); }

/// Small whole numbers, whose sums are exact in every dtype and order.
at::Tensor numbers(at::ScalarType dtype, std::int64_t count, int rank) {
  return (at::arange(count, at::kLong).remainder(5) + rank + 1).to(dtype);
}

at::Tensor reduced(at::ScalarType dtype, std::int64_t count, int world, ReduceOp op) {
  std::vector<at::Tensor> inputs;
  for (int rank = 0; rank < world; ++rank) inputs.push_back(numbers(dtype, count, rank));
  return model(inputs, op);
}

void check_reductions(Job& job) {
  ASSERT_THAT(job.backend(), HasSubstr("nccl"));
  const int world = job.world_size();
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong, at::kByte}) {
    for (const std::int64_t count : {0, 1, 1000, (1 << 18) + 1}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
        const at::Tensor mine = on_gpu(job, numbers(dtype, count, job.rank()));
        job.group().all_reduce(mine, {.op = op}).wait();
        ASSERT_TRUE(mine.cpu().equal(reduced(dtype, count, world, op))) << dtype << " of " << count;
      }
    }
  }
  const at::Tensor mean = on_gpu(job, at::full({1000}, job.rank() + 1.0F));
  job.group().all_reduce(mean, {.op = ReduceOp::kMean}).wait();
  EXPECT_EQ(mean.max().item<float>(), (world + 1) / 2.0F);
  const at::Tensor whole = on_gpu(job, numbers(at::kFloat, 1001, job.rank()));
  const ElementRange part = shard_of(1001, world, job.rank());
  const at::Tensor output = at::empty({part.size()}, whole.options());
  job.group().reduce_scatter(whole, output).wait();
  EXPECT_TRUE(output.cpu().equal(reduced(at::kFloat, 1001, world, ReduceOp::kSum).slice(0, part.begin, part.end)));
  const at::Tensor rooted = on_gpu(job, numbers(at::kInt, 100, job.rank()));
  job.group().reduce(rooted, world - 1).wait();
  if (job.rank() == world - 1) EXPECT_TRUE(rooted.cpu().equal(reduced(at::kInt, 100, world, ReduceOp::kSum)));
}

void check_moves(Job& job) {
  const int world = job.world_size();
  const at::Tensor mine = on_gpu(job, numbers(at::kFloat, 1000, job.rank()));
  const at::Tensor copy = mine.clone();
  job.group().broadcast(copy, world - 1).wait();
  EXPECT_TRUE(copy.cpu().equal(numbers(at::kFloat, 1000, world - 1)));
  std::vector<at::Tensor> all;
  job.group().all_gather(mine, all).wait();
  ASSERT_EQ(all.size(), static_cast<std::size_t>(world));
  for (int rank = 0; rank < world; ++rank) {
    EXPECT_TRUE(all[static_cast<std::size_t>(rank)].cpu().equal(numbers(at::kFloat, 1000, rank)));
  }
  const at::Tensor rows = on_gpu(job, at::full({world, 3}, job.rank()));
  const at::Tensor exchanged = at::empty_like(rows);
  job.group().all_to_all(rows, exchanged).wait();
  for (int rank = 0; rank < world; ++rank) EXPECT_EQ(exchanged[rank].max().item<int>(), rank);
  const at::Tensor message = at::empty_like(mine);
  Work sent = job.group().send(mine, (job.rank() + 1) % world);
  job.group().recv(message, (job.rank() + world - 1) % world).wait();
  sent.wait();
  EXPECT_TRUE(message.cpu().equal(numbers(at::kFloat, 1000, (job.rank() + world - 1) % world)));
}

void check_every_collective(Job& job) {
  check_reductions(job);
  check_moves(job);
  const auto half = job.group().split(job.rank() % 2);
  const at::Tensor ones = on_gpu(job, at::ones({10}));
  half->all_reduce(ones).wait();
  EXPECT_EQ(ones.max().item<float>(), half->world_size());
  job.barrier();
}

TEST(RanksOnOneGpu, TwoComputeEveryCollectiveByNccl) {
  LOCKSTEP_NEEDS_NCCL();
  run_ranks(current_test(), check_every_collective, ranks_on_one_gpu(2));
}

TEST(RanksOnOneGpu, ThreeComputeEveryCollectiveByNccl) {
  LOCKSTEP_NEEDS_NCCL();
  run_ranks(current_test(), check_every_collective, ranks_on_one_gpu(3));
}

/// The watch looks each millisecond while this thread calls: both are in NCCL's communicator, one at a time.
TEST(RanksOnOneGpu, ManyCollectivesInFlightKeepTheirOrderAndResults) {
  LOCKSTEP_NEEDS_NCCL();
  run_ranks(
      current_test(),
      [](Job& job) {
        const at::Tensor values = on_gpu(job, at::ones({4096}));
        for (int round = 0; round < 100; ++round) {
          std::vector<Work> works;
          for (int i = 0; i < 20; ++i) works.push_back(job.group().all_reduce(values, {.op = ReduceOp::kMean}));
          for (Work& work : works) work.wait();
          values.add_(1);
        }
        EXPECT_EQ(values.min().item<float>(), 101);
        EXPECT_EQ(values.max().item<float>(), 101);
      },
      ranks_on_one_gpu(2));
}

void reduce_for_ever(Job& job) {
  const at::Tensor values = on_gpu(job, at::ones({1 << 18}));
  for (int step = 0;; ++step) {
    job.group().all_reduce(values, {.op = ReduceOp::kMean}).wait();
    (void)values.sum().item<float>();
    check_group(job.group());
    if (step == 3) job.print_all("the loop runs");
  }
}

TEST(RanksOnOneGpu, AKilledRankIsNamedByTheOther) {
  LOCKSTEP_NEEDS_NCCL();
  RankProcesses ranks(current_test(), reduce_for_ever, ranks_on_one_gpu(2));
  ASSERT_TRUE(ranks.wait_for_log(1, "the loop runs"));
  kill(ranks.pid(1), SIGKILL);
  const RankEnd end = ranks.wait().at(0);
  EXPECT_EQ(end.code, 75) << end.log;
  EXPECT_THAT(end.log, HasSubstr("rank 1 on "));
}

/// Its threads that feed the sockets stop with it, so the other one has met it and waits for the GPU. Only the launcher
/// can name it.
TEST(RanksOnOneGpu, AStoppedRankEndsTheOtherAtTheTimeLimit) {
  LOCKSTEP_NEEDS_NCCL();
  RankProcesses ranks(current_test(), reduce_for_ever, ranks_on_one_gpu(2, "3"));
  ASSERT_TRUE(ranks.wait_for_log(1, "the loop runs"));
  kill(ranks.pid(1), SIGSTOP);
  ASSERT_TRUE(ranks.wait_for_log(0, "timed out"));
  kill(ranks.pid(1), SIGKILL);
  const RankEnd end = ranks.wait().at(0);
  EXPECT_EQ(end.code, 76) << end.log;
  EXPECT_THAT(end.log, HasSubstr("all_reduce timed out"));
}

TEST(RanksOnOneGpu, ARankThatCallsSomethingElseIsNamedWithItsCall) {
  LOCKSTEP_NEEDS_NCCL();
  RankProcesses ranks(
      current_test(),
      [](Job& job) {
        const at::Tensor values = on_gpu(job, at::ones({1000 + job.rank()}));
        job.group().all_reduce(values).wait();
        (void)values.sum().item<float>();
        reduce_for_ever(job);
      },
      ranks_on_one_gpu(2));
  for (const RankEnd& end : ranks.wait()) {
    EXPECT_NE(end.code, 0);
    EXPECT_THAT(end.log, HasSubstr("all_reduce(sum) of 1,001 float32 on rank 1"));
  }
}

}  // namespace gpu_ranks_test
}  // namespace lockstep::comm
