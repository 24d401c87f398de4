// SPDX-License-Identifier: Apache-2.0
// Collectives on GPU tensors.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <signal.h>

#include "comm/device_collectives.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/group_check.h"
#include "lockstep/comm/tree_sum.h"
#include "support/ranks_on_one_gpu.h"

namespace lockstep {
namespace gpu_test {

using testing::current_test;
using ::testing::HasSubstr;
using testing::run_ranks;

Job job_alone(const std::vector<const char*>& words) { return init(static_cast<int>(words.size()), words.data()); }

at::Tensor on_gpu(const at::Tensor& tensor) { return tensor.to(c10::Device(c10::kCUDA, 0)); }

/// Every collective once, with the known results of a world of one.
void check_collectives_alone(ProcessGroup& group) {
  const at::Tensor values = on_gpu(at::arange(1000, at::kFloat));
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
    const at::Tensor copy = values.clone();
    group.all_reduce(copy, {.op = op}).wait();
    EXPECT_TRUE(copy.equal(values)) << static_cast<int>(op);
  }
  const at::Tensor bits = on_gpu(at::arange(100, at::kInt));
  group.all_reduce(bits, {.op = ReduceOp::kBitXor}).wait();
  EXPECT_EQ(bits[99].item<int>(), 99);
  const at::Tensor column = on_gpu(at::ones({10, 2})).select(1, 0);
  group.broadcast(column, 0).wait();
  EXPECT_EQ(column.sum().item<float>(), 10);
  std::vector<at::Tensor> gathered;
  group.all_gather(values, gathered).wait();
  EXPECT_TRUE(gathered.at(0).equal(values));
  const at::Tensor part = at::empty_like(values);
  group.reduce_scatter(values, part).wait();
  EXPECT_TRUE(part.equal(values));
  const at::Tensor exchanged = at::empty_like(values);
  group.all_to_all(values, exchanged).wait();
  EXPECT_TRUE(exchanged.equal(values));
  group.barrier().wait();
}

TEST(Gpu, NcclAloneCarriesEveryCollective) {
  LOCKSTEP_NEEDS_NCCL();
  Job job = job_alone({"test", "--device", "cuda", "--backend", "nccl"});
  EXPECT_EQ(job.backend(), "nccl");
  check_collectives_alone(job.group());
}

TEST(Gpu, NcclAloneReducesEveryDtype) {
  LOCKSTEP_NEEDS_NCCL();
  Job job = job_alone({"test", "--device", "cuda", "--backend", "nccl"});
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong, at::kByte}) {
    const at::Tensor values = on_gpu(at::arange(100)).to(dtype);
    const at::Tensor copy = values.clone();
    job.group().all_reduce(copy, {.op = ReduceOp::kSum}).wait();
    EXPECT_TRUE(copy.equal(values)) << c10::toString(dtype);
  }
}

TEST(Gpu, NcclAloneFollowsTheStreamThatComputesAndIsFollowedByIt) {
  LOCKSTEP_NEEDS_NCCL();
  Job job = job_alone({"test", "--device", "cuda", "--backend", "nccl"});
  at::Tensor values = on_gpu(at::ones({1 << 20}));
  for (int i = 0; i < 50; ++i) {
    values.mul_(2).div_(2).add_(1);
    job.group().all_reduce(values).wait();
    values.sub_(1);
  }
  EXPECT_EQ(values.min().item<float>(), 1);
  EXPECT_EQ(values.max().item<float>(), 1);
}

TEST(Gpu, AWorldOfOneWithoutATransportLeavesTensorsWhereTheyAre) {
  LOCKSTEP_NEEDS_GPU();
  Job job = job_alone({"test", "--device", "cuda"});
  EXPECT_EQ(job.backend(), "local");
  EXPECT_TRUE(job.device().is_cuda());
  check_collectives_alone(job.group());
}

TEST(Gpu, RanksThatShareAGpuReduceThroughHostMemoryAndSayWhy) {
  LOCKSTEP_NEEDS_GPU();
  run_ranks(current_test(),
            [](Job& job) {
              EXPECT_EQ(job.backend(), "shm");
              if (!testing::why_no_nccl().empty()) return;
              EXPECT_THAT(job.backend_reason(), HasSubstr("share a GPU"));
              const at::Tensor values = at::full({100'000}, job.rank() + 1.0F, job.device());
              job.group().all_reduce(values).wait();
              EXPECT_EQ(values.min().item<float>(), 3);
              EXPECT_EQ(values.max().item<float>(), 3);
              std::vector<at::Tensor> gathered;
              job.group().gather(values, gathered, 1).wait();
              EXPECT_EQ(gathered.size(), job.rank() == 1 ? 2U : 0U);
            },
            {.world = 2, .env = {{"LOCKSTEP_DEVICE", "cuda"}, {"LOCKSTEP_SHARE_GPUS", "1"}}});
}

TEST(Gpu, RanksThatGetTheSameGpuByMistakeAreNamedOnEach) {
  LOCKSTEP_NEEDS_GPU();
  testing::RankProcesses ranks(current_test(), [](Job&) {},
                               {.world = 2, .env = {{"LOCKSTEP_DEVICE", "cuda"}, {"CUDA_VISIBLE_DEVICES", "0"}}});
  for (const testing::RankEnd& end : ranks.wait()) {
    EXPECT_EQ(end.code, 69) << end.log;
    EXPECT_THAT(end.log, HasSubstr("have the same GPU: 2 ranks need one GPU each but see only 1 GPU"));
  }
}

TEST(Gpu, WithoutNcclTensorsGoThroughHostMemoryAndTheReasonIsSaid) {
  LOCKSTEP_NEEDS_NCCL();
  run_ranks(
      current_test(),
      [](Job& job) {
        EXPECT_EQ(job.backend(), "shm");
        EXPECT_THAT(job.backend_reason(), HasSubstr("cannot use NCCL: LOCKSTEP_NCCL=/nowhere/libnccl.so.2"));
        const at::Tensor values = at::full({1000}, job.rank() + 1.0F, job.device());
        job.group().all_reduce(values).wait();
        EXPECT_EQ(values.max().item<float>(), 3);
      },
      {.world = 2,
       .env = {
           {"LOCKSTEP_DEVICE", "cuda"}, {"LOCKSTEP_SHARE_GPUS", "nccl"}, {"LOCKSTEP_NCCL", "/nowhere/libnccl.so.2"}}});
}

TEST(Gpu, NcclRefusesRanksThatShareAGpuByName) {
  LOCKSTEP_NEEDS_NCCL();
  testing::RankProcesses ranks(
      current_test(), [](Job&) {},
      {.world = 2, .env = {{"LOCKSTEP_DEVICE", "cuda"}, {"LOCKSTEP_SHARE_GPUS", "1"}, {"LOCKSTEP_BACKEND", "nccl"}}});
  for (const testing::RankEnd& end : ranks.wait()) {
    EXPECT_EQ(end.code, 64);
    EXPECT_THAT(end.log, HasSubstr("ranks 0 and 1 share a GPU"));
  }
}

TEST(Gpu, AKernelThatFailsEndsTheRankAndIsSaidToBeAnEarlierOnePerhaps) {
  LOCKSTEP_NEEDS_GPU();
  testing::RankProcesses ranks(current_test(),
                               [](Job&) {
                                 const at::Tensor beyond = on_gpu(at::full({1}, 100, at::kLong));
                                 (void)on_gpu(at::ones({4})).index_select(0, beyond).sum().item<float>();
                               },
                               {.world = 1, .env = {{"LOCKSTEP_DEVICE", "cuda"}}});
  const testing::RankEnd end = ranks.wait().at(0);
  EXPECT_NE(end.code, 0);
  EXPECT_THAT(end.log, HasSubstr("device-side assert"));
  EXPECT_THAT(end.log, HasSubstr("CUDA_LAUNCH_BLOCKING=1"));
}

TEST(Gpu, SumsOfReplicasHaveTheBitsOfTheCpus) {
  LOCKSTEP_NEEDS_GPU();
  std::vector<PartialSum> here;
  std::vector<PartialSum> there;
  for (int replica = 0; replica < 5; ++replica) {
    here.push_back({at::randn({1000}), {replica, replica + 1}});
    there.push_back({on_gpu(here.back().value), {replica, replica + 1}});
  }
  const at::Tensor expected = at::empty({1000});
  const at::Tensor found = on_gpu(expected);
  tree_sum(here, expected, {.op = ReduceOp::kMean, .divisor = 5});
  tree_sum(there, found, {.op = ReduceOp::kMean, .divisor = 5});
  EXPECT_TRUE(found.cpu().equal(expected));
}

}  // namespace gpu_test
}  // namespace lockstep

namespace lockstep::comm {
namespace gpu_test {

using ::lockstep::testing::current_test;
using ::lockstep::testing::RankEnd;
using ::lockstep::testing::RankProcesses;
using ::lockstep::testing::ranks_on_one_gpu;
using ::lockstep::testing::RanksOnOneGpu;
using ::lockstep::testing::run_ranks;
using ::testing::HasSubstr;

TEST_P(RanksOnOneGpu, TwoComputeEveryCollective) {
  LOCKSTEP_NEEDS_RANKS_ON_ONE_GPU();
  run_ranks(current_test(), device_collectives::check_every_collective, ranks_on_one_gpu(2, GetParam()));
}

TEST_P(RanksOnOneGpu, ThreeComputeEveryCollective) {
  LOCKSTEP_NEEDS_RANKS_ON_ONE_GPU();
  run_ranks(current_test(), device_collectives::check_every_collective, ranks_on_one_gpu(3, GetParam()));
}

/// The watch polls every millisecond while this thread makes calls: both use the communicator, one at a time.
TEST_P(RanksOnOneGpu, ManyCollectivesInFlightKeepTheirOrderAndResults) {
  LOCKSTEP_NEEDS_RANKS_ON_ONE_GPU();
  run_ranks(
      current_test(), [](Job& job) { device_collectives::keep_many_in_flight(job, 100); },
      ranks_on_one_gpu(2, GetParam()));
}

TEST_P(RanksOnOneGpu, AKilledRankIsNamedByTheOther) {
  LOCKSTEP_NEEDS_RANKS_ON_ONE_GPU();
  RankProcesses ranks(current_test(), device_collectives::reduce_for_ever, ranks_on_one_gpu(2, GetParam()));
  ASSERT_TRUE(ranks.wait_for_log(1, "the loop runs"));
  kill(ranks.pid(1), SIGKILL);
  const RankEnd end = ranks.wait().at(0);
  EXPECT_EQ(end.code, 75) << end.log;
  EXPECT_THAT(end.log, HasSubstr("rank 1 on "));
}

/// The socket threads of a stopped rank stop as well. The other rank has already agreed on the collective with it and
/// waits for the GPU, so only the launcher can name the stopped rank.
TEST_P(RanksOnOneGpu, AStoppedRankEndsTheOtherAtTheTimeLimit) {
  LOCKSTEP_NEEDS_RANKS_ON_ONE_GPU();
  RankProcesses ranks(current_test(), device_collectives::reduce_for_ever, ranks_on_one_gpu(2, GetParam(), "3"));
  ASSERT_TRUE(ranks.wait_for_log(1, "the loop runs"));
  kill(ranks.pid(1), SIGSTOP);
  ASSERT_TRUE(ranks.wait_for_log(0, "timed out"));
  kill(ranks.pid(1), SIGKILL);
  const RankEnd end = ranks.wait().at(0);
  EXPECT_EQ(end.code, 76) << end.log;
  EXPECT_THAT(end.log, HasSubstr("all_reduce timed out"));
}

TEST_P(RanksOnOneGpu, ARankThatCallsSomethingElseIsNamedWithItsCall) {
  LOCKSTEP_NEEDS_RANKS_ON_ONE_GPU();
  RankProcesses ranks(
      current_test(),
      [](Job& job) {
        const at::Tensor values = at::ones({1000 + job.rank()}, job.device());
        job.group().all_reduce(values).wait();
        (void)values.sum().item<float>();
        device_collectives::reduce_for_ever(job);
      },
      ranks_on_one_gpu(2, GetParam()));
  for (const RankEnd& end : ranks.wait()) {
    EXPECT_NE(end.code, 0);
    EXPECT_THAT(end.log, HasSubstr("all_reduce(sum) of 1,001 float32 on rank 1"));
  }
}

LOCKSTEP_RANKS_ON_ONE_GPU();

}  // namespace gpu_test
}  // namespace lockstep::comm
