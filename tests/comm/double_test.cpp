// SPDX-License-Identifier: Apache-2.0
// Several fake GPUs and a fake NCCL, running comm's real path for device tensors.
#include "support/host_waits.h"
// then the headers that need torch
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <thread>

#include "comm/device_collectives.h"
#include "lockstep/base/error.h"
#include "lockstep/base/nccl_library.h"
#include "lockstep/tensor/device.h"
#include "support/double/ended_ranks.h"
#include "support/double/ranks.h"
#include "support/double/test_streams.h"

namespace lockstep::comm {
namespace double_test {

using device_collectives::reduce_for_ever;
using testing::current_test;
using ::testing::ElementsAre;
using testing::ended_ranks;
using testing::EndedRanks;
using testing::expect_the_others_to_name_rank_1;
using testing::found_races;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RankEnd;
using testing::RankProcesses;
using testing::ranks_on_gpus;
using testing::RanksOptions;
using testing::run_ranks;
using ::testing::SizeIs;
using Env = std::map<std::string, std::string>;

TEST(Double, TwoGpusSumByNcclInTheOrderOfTheStream) {
  run_ranks(
      current_test(),
      [](Job& job) {
        EXPECT_EQ(job.device().str(), job.rank() == 0 ? "cuda:0" : "cuda:1");
        EXPECT_THAT(job.backend(), HasSubstr("nccl"));
        const at::Tensor values = at::full({1000}, job.rank() + 1.0F, job.device());
        for (int round = 0; round < 3; ++round) {
          job.group().all_reduce(values).wait();
          values.add_(1);
        }
        EXPECT_EQ(values.min().item<float>(), (3 + 1) * 4 + 2 + 1);
        EXPECT_EQ(values.max().item<float>(), (3 + 1) * 4 + 2 + 1);
        EXPECT_THAT(found_races(), IsEmpty());
      },
      ranks_on_gpus(2, {{"LOCKSTEP_DOUBLE_DELAY_US", "2000"}}));
}

void check_all(Job& job) {
  device_collectives::check_every_collective(job);
  EXPECT_THAT(found_races(), IsEmpty());
}

class DoubleWorlds : public ::testing::TestWithParam<int> {};

TEST_P(DoubleWorlds, ComputeEveryCollectiveOfEveryDtype) {
  run_ranks(current_test(), check_all, ranks_on_gpus(GetParam()));
}

/// The tests of ranks on one real GPU (support/ranks_on_one_gpu.h), on the fake runtime.
TEST_P(DoubleWorlds, ComputeEveryCollectiveThroughTheDoubleForRealGpus) {
  run_ranks(current_test(), check_all, ranks_on_gpus(GetParam(), {{"LOCKSTEP_NCCL", LOCKSTEP_NCCL_DOUBLE_ON_CUDA}}));
}

INSTANTIATE_TEST_SUITE_P(Of, DoubleWorlds, ::testing::Values(2, 3, 4));

/// The inter-host part goes over the wire. LOCKSTEP_HOST_ID makes the ranks believe that they are on two hosts.
TEST(Double, TwoHostsComputeEveryCollectiveOfEveryDtype) {
  RanksOptions options = ranks_on_gpus(3);
  options.host_sizes = {2, 1};
  run_ranks(
      current_test(),
      [](Job& job) {
        EXPECT_EQ(job.backend(), "nccl");
        EXPECT_THAT(job.backend_reason(), HasSubstr("tensors in host memory go through shm+tcp"));
        check_all(job);
      },
      options);
}

TEST(Double, EightGpusSum) {
  run_ranks(
      current_test(),
      [](Job& job) {
        const at::Tensor values = at::full({100'000}, job.rank() + 1.0F, job.device());
        job.group().all_reduce(values).wait();
        EXPECT_EQ(values.min().item<float>(), 36);
      },
      ranks_on_gpus(8));
}

/// Each rank has three of six replicas, already combined into two partial sums, one per row.
TEST(Double, RowsOfSeveralReplicasAreReducedWithThoseOfOthers) {
  run_ranks(
      current_test(),
      [](Job& job) {
        for (const auto& [op, expected] : std::vector<std::pair<ReduceOp, float>>{
                 {ReduceOp::kSum, 10}, {ReduceOp::kMean, 10.0F / 6}, {ReduceOp::kMax, 4}, {ReduceOp::kProduct, 24}}) {
          const at::Tensor rows = at::full({2, 50}, 1.0F, job.device());
          for (int row = 0; row < 2; ++row) rows[row].fill_(2 * job.rank() + row + 1);
          job.group().all_reduce(rows, {.op = op, .replicas = 6}).wait();
          EXPECT_EQ(rows[0].min().item<float>(), expected) << static_cast<int>(op);
        }
        EXPECT_THAT(found_races(), IsEmpty());
      },
      ranks_on_gpus(2));
}

/// The watch polls NCCL every millisecond while this thread makes calls. Two threads in the communicator at once would
/// end the process.
TEST(Double, OneThreadAtATimeIsInTheCommunicator) {
  run_ranks(
      current_test(),
      [](Job& job) {
        device_collectives::keep_many_in_flight(job, 25);
        EXPECT_THAT(found_races(), IsEmpty());
      },
      ranks_on_gpus(2));
}

/// One thread calls continuously while another aborts. A nonblocking call returns before the abort: two threads in the
/// communicator at once would end the process.
TEST(Double, AnAbortLetsACallThatIsUnderWayComeBack) {
  run_ranks(
      current_test(),
      [](Job& job) {
        const at::Tensor values = at::full({10}, 1.0F, job.device());
        for (int round = 0; round < 10; ++round) {
          const auto part = job.group().split(0);
          std::thread aborts([&] {
            std::this_thread::sleep_for(std::chrono::microseconds(2000 + 37 * round));
            part->abort("enough");
          });
          try {
            for (;;) part->all_reduce(values).wait();
          } catch (const Error& error) {
            EXPECT_THAT(error.message(), HasSubstr("enough"));
          }
          aborts.join();
          job.barrier();
        }
      },
      ranks_on_gpus(2));
}

/// The caller may drop its tensors, and nothing else owns the contiguous copies of strided tensors.
TEST(Double, TensorsOfACollectiveAreKeptUntilItIsOver) {
  run_ranks(
      current_test(),
      [](Job& job) {
        const at::Tensor part = at::empty({500}, at::TensorOptions(job.device()));
        Work work = job.group().reduce_scatter(at::full({1000, 2}, 1.0F, job.device()).select(1, 0), part);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the watch polls during this time
        EXPECT_FALSE(work.is_done());
        EXPECT_THAT(found_races(), IsEmpty());
        work.wait();
        EXPECT_EQ(part.min().item<float>(), 2);
        EXPECT_THAT(found_races(), IsEmpty());
      },
      ranks_on_gpus(2, {{"LOCKSTEP_DOUBLE_DELAY_US", "50000"}}));
}

/// Through NCCL, and through host memory for what NCCL cannot do.
TEST(Double, ResultsAreThereForTheStreamThatCalled) {
  run_ranks(
      current_test(),
      [](Job& job) {
        const c10::impl::VirtualGuardImpl streams(c10::kCUDA);
        const c10::StreamGuard on_another(streams.getStreamFromGlobalPool(job.device()));
        for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kBitXor}) {
          const at::Tensor bits = at::full({100}, 1 << job.rank(), at::TensorOptions(job.device()).dtype(at::kInt));
          job.group().all_reduce(bits, {.op = op}).wait();
          EXPECT_EQ(bits.add(0).min().item<int>(), 3);
        }
        EXPECT_THAT(found_races(), IsEmpty());
      },
      ranks_on_gpus(2, {{"LOCKSTEP_DOUBLE_DELAY_US", "2000"}}));
}

TEST(Double, ASlowRankIsWaitedFor) {
  run_ranks(
      current_test(),
      [](Job& job) {
        const at::Tensor values = at::full({10}, 1.0F, job.device());
        for (int round = 0; round < 3; ++round) job.group().all_reduce(values).wait();
        EXPECT_EQ(values.max().item<float>(), 8);
      },
      ranks_on_gpus(2, {{"LOCKSTEP_DOUBLE_FAULT", "rank=1,call=1,fault=slow"}}));
}

// The double itself ---------------------------------------------------------------------------------------------------

using testing::another_stream;
using testing::current_stream;
using testing::kGpu;
using testing::put_behind;

class DoubleItself : public ::testing::Test {
 protected:
  void SetUp() override {
    LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
    (void)found_races();  // discards races with the previous test's memory
  }
};

TEST_F(DoubleItself, AStreamThatReadsWhatAnotherWritesIsFound) {
  const at::Tensor values = at::full({4}, 1.0F, kGpu);
  const c10::StreamGuard on_another(another_stream());
  (void)values.add(1);
  EXPECT_THAT(found_races(), ElementsAre(HasSubstr("aten::add on cuda:0's stream")));
}

TEST_F(DoubleItself, AStreamThatWaitsForAnotherIsNot) {
  const at::Tensor values = at::full({4}, 1.0F, kGpu);
  const c10::Stream another = another_stream();
  put_behind(another, current_stream());
  const c10::StreamGuard on_another(another);
  values.add_(1);
  EXPECT_EQ(values[0].item<float>(), 2);
  EXPECT_THAT(found_races(), IsEmpty());
}

TEST_F(DoubleItself, PartsOfOneMemoryMayBeWrittenBesideEachOther) {
  const at::Tensor values = at::full({4}, 1.0F, kGpu);
  const c10::Stream another = another_stream();
  put_behind(another, current_stream());
  values.slice(0, 0, 2).add_(1);
  const c10::StreamGuard on_another(another);
  values.slice(0, 2, 4).add_(1);
  EXPECT_THAT(found_races(), IsEmpty());
  values.slice(0, 1, 4).add_(1);
  EXPECT_THAT(found_races(), SizeIs(1));
}

TEST_F(DoubleItself, MemoryThatIsGivenBackWhileAnotherStreamMayUseItIsFound) {
  for (const bool is_recorded : {false, true}) {
    at::Tensor values = at::full({4}, 1.0F, kGpu);
    const c10::Stream another = another_stream();
    put_behind(another, current_stream());
    {
      const c10::StreamGuard on_another(another);
      values.add_(1);
      if (is_recorded) values.record_stream(another);
    }
    values.reset();
    EXPECT_THAT(found_races(), SizeIs(is_recorded ? 0 : 1));
  }
}

TEST_F(DoubleItself, NumbersThatTheHostReadsTooEarlyAreNotThereYet) {
  ::setenv("LOCKSTEP_DOUBLE_DELAY_US", "20000", 1);
  const at::Tensor values = at::full({1}, 1.0F, kGpu);
  const at::Tensor here = at::full({1}, 1.0F).pin_memory();
  here.copy_(values, /*non_blocking=*/true);
  EXPECT_NE(here.data_ptr<float>()[0], 1);
  current_stream().synchronize();
  EXPECT_EQ(here.data_ptr<float>()[0], 1);
  ::unsetenv("LOCKSTEP_DOUBLE_DELAY_US");
}

/// Two communicators in this process, like those of two ranks.
class Pair {
 public:
  Pair() : nccl_(nccl::open({.named = LOCKSTEP_NCCL_DOUBLE}).functions) {
    nccl::UniqueId id;
    EXPECT_EQ(nccl_.get_unique_id(&id), nccl::kSuccess);
    nccl::Config config;
    config.blocking = 0;
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(nccl_.comm_init_rank_config(&comms_.at(static_cast<std::size_t>(rank)), 2, id, rank, &config),
                nccl::kInProgress);
    }
    for (const nccl::Comm comm : comms_) settle(comm);
  }
  /// Sums on the rank's own stream, and returns that stream.
  c10::Stream sum(std::size_t rank, const at::Tensor& values) {
    const c10::Stream stream = another_stream();
    put_behind(stream, current_stream());
    const auto count = static_cast<std::size_t>(values.numel());
    EXPECT_EQ(nccl_.all_reduce(values.data_ptr(), values.data_ptr(), count, nccl::kFloat32, nccl::kSum, comms_.at(rank),
                               static_cast<nccl::Stream>(tensor::native_stream(stream))),
              nccl::kInProgress);
    settle(comms_.at(rank));
    return stream;
  }
  void abort() {
    for (const nccl::Comm comm : comms_) EXPECT_EQ(nccl_.comm_abort(comm), nccl::kSuccess);
  }
  void call_from_two_threads() {
    const auto ask = [this] {
      for (int i = 0; i < 1000; ++i) settle(comms_[0]);
    };
    std::thread other(ask);
    ask();
    other.join();
  }

 private:
  void settle(nccl::Comm comm) {
    nccl::Result state = nccl::kInProgress;
    while (state == nccl::kInProgress) EXPECT_EQ(nccl_.comm_get_async_error(comm, &state), nccl::kSuccess);
    EXPECT_EQ(state, nccl::kSuccess);
  }

  const nccl::Functions nccl_;
  std::array<nccl::Comm, 2> comms_{};
};

TEST_F(DoubleItself, CallsThatDoNotMatchHangUntilTheyAreAborted) {
  Pair pair;
  const at::Tensor ten = at::full({10}, 1.0F, kGpu);
  const at::Tensor eleven = at::full({11}, 1.0F, kGpu);
  const c10::Stream first = pair.sum(0, ten);
  const c10::Stream second = pair.sum(1, eleven);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(first.query());
  EXPECT_FALSE(second.query());
  pair.abort();
  first.synchronize();
  second.synchronize();
}

TEST_F(DoubleItself, CallsThatMatchEnd) {
  Pair pair;
  const at::Tensor one = at::full({10}, 1.0F, kGpu);
  const at::Tensor two = at::full({10}, 2.0F, kGpu);
  const c10::Stream first = pair.sum(0, one);
  const c10::Stream second = pair.sum(1, two);
  first.synchronize();
  second.synchronize();
  EXPECT_EQ(one.min().item<float>(), 3);
  EXPECT_EQ(two.min().item<float>(), 3);
}

TEST_F(DoubleItself, TwoThreadsInOneCommunicatorEndTheProcess) {
  RankProcesses ranks(
      current_test(), [](Job& /*job*/) { Pair().call_from_two_threads(); }, ranks_on_gpus(1));
  const RankEnd end = ranks.wait().at(0);
  EXPECT_EQ(end.code, 128 + SIGABRT);
  EXPECT_THAT(end.log, HasSubstr("two threads are in one communicator: one calls ncclCommGetAsyncError"));
}

// Failures ------------------------------------------------------------------------------------------------------------

EndedRanks loop_with(int world, Env env) {
  env.try_emplace("LOCKSTEP_TIMEOUT", "60");
  return ended_ranks(reduce_for_ever, ranks_on_gpus(world, std::move(env)));
}

TEST(DoubleFailure, AnErrorOfNcclsOnOneRankIsNamedOnAllAtOnce) {
  const EndedRanks ended = loop_with(3, {{"LOCKSTEP_DOUBLE_FAULT", "rank=1,call=5,fault=error"}});
  EXPECT_EQ(ended.ranks[1].code, 69) << ended.ranks[1].log;
  EXPECT_THAT(ended.ranks[1].log, HasSubstr("simulated error of the network"));
  expect_the_others_to_name_rank_1(ended);
}

/// The rank itself may keep waiting for its GPU until the launcher kills it.
TEST(DoubleFailure, AnAbortThatHangsKeepsNoOtherRankWaiting) {
  RankProcesses ranks(
      current_test(), reduce_for_ever,
      ranks_on_gpus(2, {{"LOCKSTEP_DOUBLE_FAULT", "rank=1,call=5,fault=stuck"}, {"LOCKSTEP_TIMEOUT", "60"}}));
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(ranks.wait_for_log(0, "rank 1 on "));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30)) << "far below the timeout";
  kill(ranks.pid(1), SIGKILL);
  EXPECT_EQ(ranks.wait().at(0).code, 75);
}

TEST(DoubleFailure, AHangInsideNcclEndsAllAtTheTimeLimit) {
  const EndedRanks ended =
      loop_with(2, {{"LOCKSTEP_DOUBLE_FAULT", "rank=1,call=5,fault=hang"}, {"LOCKSTEP_TIMEOUT", "2"}});
  for (const RankEnd& end : ended.ranks) {
    EXPECT_NE(end.code, 0);
    EXPECT_THAT(end.log, HasSubstr("all_reduce timed out on the GPU after 2.0 s"));
  }
}

/// Like a GPU whose queues fill up while it waits for a peer: the blocked thread returns once everything is aborted.
TEST(DoubleFailure, ACallThatBlocksEndsAtTheTimeLimit) {
  const EndedRanks ended =
      loop_with(2, {{"LOCKSTEP_DOUBLE_FAULT", "rank=1,call=5,fault=full"}, {"LOCKSTEP_TIMEOUT", "2"}});
  for (const RankEnd& end : ended.ranks) {
    EXPECT_GT(end.code, 0) << end.log;
    EXPECT_THAT(end.log, HasSubstr("all_reduce timed out on the GPU after 2.0 s"));
  }
}

TEST(DoubleFailure, AThreadThatWaitsForAFullQueueComesBack) {
  RankProcesses ranks(
      current_test(),
      [](Job& job) {
        const at::Tensor values = at::full({10}, 1.0F, job.device());
        for (;;) job.group().all_reduce(values).wait();
      },
      ranks_on_gpus(2, {{"LOCKSTEP_DOUBLE_FAULT", "rank=1,call=5,fault=hang"},
                        {"LOCKSTEP_DOUBLE_QUEUE", "4"},
                        {"LOCKSTEP_TIMEOUT", "2"}}));
  for (const RankEnd& end : ranks.wait()) {
    EXPECT_GT(end.code, 0) << end.log;
    EXPECT_THAT(end.log, HasSubstr("all_reduce timed out on the GPU after 2.0 s"));
  }
}

/// Runs ranks; rank 1 has a fault while the GPUs are connecting. Returns how they ended and the time taken.
EndedRanks connect_with(const std::string& fault) {
  return loop_with(3, {{"LOCKSTEP_DOUBLE_FAULT", "rank=1,call=init,fault=" + fault}});
}

TEST(DoubleFailure, ARankThatDiesWhileTheGpusConnectIsNamed) {
  const EndedRanks ended = connect_with("die");
  EXPECT_EQ(ended.ranks[1].code, 128 + SIGKILL);
  expect_the_others_to_name_rank_1(ended);
}

/// NCCL notices the death as well, and may be faster.
TEST(DoubleFailure, ARankThatDiesWhileTheGpusConnectIsNamedBeforeNcclsError) {
  const EndedRanks ended = connect_with("lost");
  EXPECT_EQ(ended.ranks[1].code, 128 + SIGKILL);
  expect_the_others_to_name_rank_1(ended);
}

TEST(DoubleFailure, AnErrorWhileTheGpusConnectIsNamedOnAll) {
  const EndedRanks ended = connect_with("error");
  EXPECT_EQ(ended.ranks[1].code, 69) << ended.ranks[1].log;
  EXPECT_THAT(ended.ranks[1].log, HasSubstr("simulated error of the network"));
  expect_the_others_to_name_rank_1(ended);
}

TEST(DoubleFailure, ARankThatDiesInsideNcclIsNamedByTheOthers) {
  const EndedRanks ended = loop_with(3, {{"LOCKSTEP_DOUBLE_FAULT", "rank=1,call=5,fault=die"}});
  EXPECT_EQ(ended.ranks[1].code, 128 + SIGKILL);
  expect_the_others_to_name_rank_1(ended);
}

TEST(DoubleFailure, AStoppedRankIsATimeout) {
  RankProcesses ranks(current_test(), reduce_for_ever, ranks_on_gpus(2, {{"LOCKSTEP_TIMEOUT", "2"}}));
  ASSERT_TRUE(ranks.wait_for_log(1, "the loop runs"));
  kill(ranks.pid(1), SIGSTOP);
  ASSERT_TRUE(ranks.wait_for_log(0, "timed out"));
  kill(ranks.pid(1), SIGKILL);
  const RankEnd end = ranks.wait().at(0);
  EXPECT_EQ(end.code, 76) << end.log;
}

TEST(DoubleFailure, ARankThatDoesNotComeIsNamed) {
  RankProcesses ranks(
      current_test(),
      [](Job& job) {
        const at::Tensor values = at::full({10}, 1.0F, job.device());
        job.group().all_reduce(values).wait();
        if (job.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(60));
        job.group().all_reduce(values).wait();
        (void)values.sum().item<float>();
        check_group(job.group());
      },
      ranks_on_gpus(2, {{"LOCKSTEP_TIMEOUT", "2"}}));
  ASSERT_TRUE(ranks.wait_for_log(0, "timed out"));
  kill(ranks.pid(1), SIGKILL);
  const RankEnd end = ranks.wait().at(0);
  EXPECT_EQ(end.code, 76) << end.log;
  EXPECT_THAT(end.log, HasSubstr("waiting for   rank 1 on"));
}

TEST(DoubleFailure, ARankThatCallsSomethingElseIsNamedWithItsCall) {
  RankProcesses ranks(
      current_test(),
      [](Job& job) {
        const at::Tensor values = at::full({1000 + job.rank()}, 1.0F, job.device());
        job.group().all_reduce(values).wait();
        (void)values.sum().item<float>();
        reduce_for_ever(job);
      },
      ranks_on_gpus(2));
  for (const RankEnd& end : ranks.wait()) {
    EXPECT_NE(end.code, 0);
    EXPECT_THAT(end.log, HasSubstr("all_reduce(sum) of 1,001 float32 on rank 1"));
  }
}

}  // namespace double_test
}  // namespace lockstep::comm
