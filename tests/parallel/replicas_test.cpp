// SPDX-License-Identifier: Apache-2.0
// Replicas that share a rank compute the same as replicas on ranks of their own: compared bit for bit with a plain loop
// over them.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/nn/functional/dropout.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <atomic>

#include "lockstep/base/error.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/tensor/random.h"
#include "parallel/replica_threads.h"
#include "support/alone.h"
#include "support/fake_cuda.h"
#include "support/run_ranks.h"
#include "support/scarce.h"
#include "support/tree_model.h"

namespace lockstep {
namespace replicas_test {

using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("first", first);
    register_module("norm", norm);
    register_module("last", last);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor hidden = norm(first(x)).relu();
    return last(torch::nn::functional::dropout(hidden)).pow(2).mean();
  }
  torch::nn::Linear first{6, 33};
  torch::nn::BatchNorm1d norm{33};
  torch::nn::Linear last{33, 2};
};
TORCH_MODULE(Net);

Net make_net() {
  seed_all(3);
  return Net();
}

at::Tensor input(int replica, int micro_batch) {
  auto generator = make_generator(static_cast<std::uint64_t>(100 * replica + micro_batch));
  return at::rand({5, 6}, generator);
}

constexpr int kMicroBatches = 2;

/// The part of `replica` in one step of two micro-batches.
void run_replica(int replica, const std::function<at::Tensor(const at::Tensor&, bool last)>& forward) {
  seed_all(stream_seed(7, static_cast<std::uint64_t>(replica)));
  for (int i = 0; i < kMicroBatches; ++i) forward(input(replica, i), i + 1 == kMicroBatches);
}

/// The mean gradients over `replicas` in tree order, each from a separate net.
std::vector<at::Tensor> expected_gradients(int replicas) {
  std::vector<std::vector<at::Tensor>> by_parameter(6);
  for (int replica = 0; replica < replicas; ++replica) {
    Net net = make_net();
    run_replica(replica, [&](const at::Tensor& x, bool) {
      net->forward(x).backward();
      return x;
    });
    for (std::size_t i = 0; i < by_parameter.size(); ++i) by_parameter[i].push_back(net->parameters()[i].grad());
  }
  std::vector<at::Tensor> means;
  for (const auto& gradients : by_parameter) means.push_back(comm::model(gradients, ReduceOp::kMean));
  return means;
}

struct Model {
  Model(Job& job, int replicas, bool exact = true)
      : ddp(make_net(), job,
            DdpOptions{.replicas = replicas, .exact = exact, .first_bucket_bytes = 300, .bucket_bytes = 300}),
        team(job.group(), {.replicas = replicas, .on_switch = [this](int local) { ddp.enter_replica(local); }}) {}

  void step() {
    ddp.sync_buffers();
    team.run([&](Replica& replica) {
      run_replica(replica.index(), [&](const at::Tensor& x, bool last) {
        if (last) {
          ddp(x).backward();
        } else {
          const NoSync local = ddp.no_sync();
          ddp(x).backward();
        }
        return x;
      });
    });
  }
  void zero_grad() {
    for (at::Tensor& parameter : ddp.parameters()) parameter.mutable_grad().reset();
  }

  DistributedDataParallel<NetImpl> ddp;
  ReplicaTeam team;
};

void compare_steps(Job& job, int replicas) {
  Model model(job, replicas);
  const std::vector<at::Tensor> expected = expected_gradients(replicas);
  // Batch norm's running statistics do not affect the gradients, so they are the same in every step; the second step
  // has rebuilt buckets.
  for (int step = 0; step < 3; ++step) {
    model.step();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_TRUE(comm::same_bits(model.ddp.parameters()[i].grad(), expected[i]))
          << "parameter " << i << " in step " << step << " of " << replicas << " replicas on " << job.world_size();
    }
    model.zero_grad();
  }
}

class ReplicaWorlds : public ::testing::TestWithParam<int> {};

TEST_P(ReplicaWorlds, GradientsHaveTheBitsOfAPlainLoopOverTheReplicas) {
  run_ranks(current_test(),
            [](Job& job) {
              for (const int replicas : {4, 5, 7}) compare_steps(job, replicas);
            },
            {.world = GetParam()});
}
INSTANTIATE_TEST_SUITE_P(OneToFour, ReplicaWorlds, ::testing::Values(1, 2, 3, 4));

RANKS_TEST(Replicas, BuffersOfReplicaZeroSurviveAndStartEveryStep, 2) {
  Net alone = make_net();
  for (int step = 0; step < 2; ++step) {
    run_replica(0, [&](const at::Tensor& x, bool) { return alone->forward(x); });
  }
  Model model(job, 5);
  for (int step = 0; step < 2; ++step) {
    model.step();
    model.zero_grad();
  }
  model.ddp.sync_buffers();
  const auto buffers = model.ddp.named_buffers();
  for (const auto& item : alone->named_buffers()) {
    EXPECT_TRUE(comm::same_bits(buffers[item.key()], item.value())) << item.key();
  }
}

TEST(Replicas, EachStartsFromTheBuffersBeforeTheFirstForward) {
  Job job = alone();
  Model model(job, 3);
  model.ddp.module().norm->running_mean.fill_(2);  // a load after wrapping counts
  std::vector<at::Tensor> means;
  model.team.run([&](Replica& replica) {
    means.push_back(model.ddp.module().norm->running_mean.clone());
    model.ddp(input(replica.index(), 0)).backward();
  });
  for (const at::Tensor& mean : means) EXPECT_TRUE(mean.equal(means.front())) << mean;
  EXPECT_EQ(means.back()[0].item<float>(), 2);
  model.ddp.enter_replica(2);
  EXPECT_EQ(model.ddp.module().norm->num_batches_tracked.item<std::int64_t>(), 1);
}

RANKS_TEST(Replicas, SixteenBitGradientsAreSummedInFloat32AndRoundedOnce, 2) {
  constexpr int kReplicas = 7;
  const auto make = [] {
    seed_all(5);
    torch::nn::Linear net(6, 3);
    net->to(at::kBFloat16);
    return net;
  };
  std::vector<at::Tensor> alone;
  for (int replica = 0; replica < kReplicas; ++replica) {
    auto net = make();
    net->forward(input(replica, 0).to(at::kBFloat16)).sum().backward();
    alone.push_back(net->weight.grad());
  }
  DistributedDataParallel ddp(make(), job, DdpOptions{.replicas = kReplicas});
  ReplicaTeam team(job.group(), {.replicas = kReplicas, .on_switch = [&](int local) { ddp.enter_replica(local); }});
  team.run([&](Replica& replica) { ddp(input(replica.index(), 0).to(at::kBFloat16)).sum().backward(); });
  const at::Tensor gradient = ddp.module().weight.grad();
  EXPECT_EQ(gradient.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(comm::same_bits(gradient, comm::model(alone, ReduceOp::kMean)));
}

RANKS_TEST(Replicas, ReduceInsideAForwardOverAllOfTheRun, 2) {
  ReplicaTeam team(job.group(), {.replicas = 5});
  std::vector<int> order;
  team.run([&](Replica& replica) {
    const at::Tensor sum = at::full({1}, replica.index() + 1, at::kLong);
    const at::Tensor most = at::full({1}, replica.index(), at::kBFloat16);
    this_replica().all_reduce(sum);
    order.push_back(replica.local());
    replica.all_reduce(most, ReduceOp::kMax);
    EXPECT_EQ(sum.item<std::int64_t>(), 15);
    EXPECT_EQ(most.item<float>(), 4);
    EXPECT_EQ(replica.count(), 5);
  });
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], static_cast<int>(i));
}

RANKS_TEST(Replicas, ExactOffGivesTheSameMeanUpToRounding, 2) {
  Model model(job, 5, /*exact=*/false);
  const std::vector<at::Tensor> expected = expected_gradients(5);
  model.step();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(at::allclose(model.ddp.parameters()[i].grad(), expected[i], 1e-5, 1e-7));
  }
}

TEST(ReplicaTeam, OneRunsAtATimeAndInOrder) {
  const Job job = alone();
  std::vector<int> switches;
  ReplicaTeam team(job.group(), {.replicas = 3, .on_switch = [&](int local) { switches.push_back(local); }});
  std::atomic<int> running = 0;
  std::vector<int> order;
  team.run([&](Replica& replica) {
    EXPECT_EQ(++running, 1);
    order.push_back(replica.index());
    --running;
  });
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(switches, (std::vector<int>{0, 1, 2, 0}));
}

TEST(ReplicaTeam, RandomNumbersAndAutocastBelongToTheReplica) {
  const Job job = alone();
  ReplicaTeam team(job.group(), {.replicas = 3});
  std::vector<double> mixed;
  team.run([&](Replica& replica) {
    seed_all(static_cast<std::uint64_t>(replica.index()));
    const double first = at::rand({1}).item<double>();
    {
      const Autocast autocast(c10::DeviceType::CPU, replica.index() == 1 ? Amp::kBf16 : Amp::kNone);
      replica.all_reduce(at::zeros({1}));
      EXPECT_EQ(tensor::autocast_state(c10::DeviceType::CPU).enabled, replica.index() == 1);
    }
    mixed.push_back(first + at::rand({1}).item<double>());
  });
  for (std::size_t i = 0; i < 3; ++i) {
    seed_all(i);
    const double first = at::rand({1}).item<double>();
    EXPECT_EQ(mixed[i], first + at::rand({1}).item<double>());
  }
}

TEST(ReplicaTeam, AReplicaTakesTheCallersGradientMode) {
  const Job job = alone();
  ReplicaTeam team(job.group(), {.replicas = 2});
  const at::NoGradGuard no_grad;
  team.run([](Replica&) { EXPECT_FALSE(at::GradMode::is_enabled()); });
}

TEST(ReplicaTeam, AnErrorOfOneEndsAllAndIsTheCallers) {
  const Job job = alone();
  ReplicaTeam team(job.group(), {.replicas = 3});
  int ended = 0;
  try {
    team.run([&](Replica& replica) {
      if (replica.index() == 1) throw DataError("no such picture");
      replica.all_reduce(at::zeros({1}));
      ++ended;
    });
    ADD_FAILURE() << "the error was lost";
  } catch (const DataError& error) {
    EXPECT_EQ(error.message(), "no such picture");
  }
  EXPECT_EQ(ended, 0);
  team.run([&](Replica& replica) { replica.all_reduce(at::zeros({1})); });  // and it can run again
}

TEST(ReplicaTeam, ACollectiveThatOneLeavesOutIsAnErrorNotAHang) {
  const Job job = alone();
  ReplicaTeam team(job.group(), {.replicas = 3});
  try {
    team.run([&](Replica& replica) {
      if (replica.index() != 1) replica.all_reduce(at::zeros({1}));
    });
    ADD_FAILURE() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), HasSubstr("replica 0 waits in a collective"));
  }
}

TEST(ReplicaTeam, EveryReplicasThreadIsOnTheDeviceOfTheProcess) {
  const Job job = alone();
  const testing::FakeCuda gpus(3);
  ReplicaTeam team(job.group(), {.replicas = 3});
  std::vector<int> found;
  team.run([&](Replica&) { found.push_back(testing::FakeCuda::current()); });
  EXPECT_THAT(found, ElementsAre(3, 3, 3));
}

TEST(ReplicaTeam, EveryReplicasThreadComputesOnTheStreamsOfItsCaller) {
  const Job job = alone();
  const testing::FakeCuda gpus(0);
  ReplicaTeam team(job.group(), {.replicas = 3});
  for (const int stream : {5, 0}) {
    const testing::OnStream current(2, stream);
    std::vector<std::int64_t> found;
    team.run([&](Replica&) { found.push_back(testing::FakeCuda::stream_of(2)); });
    EXPECT_THAT(found, ElementsAre(stream, stream, stream));
  }
}

// The threads already started are stopped, and the error names the exhausted limit.
TEST(ReplicaTeam, ThatFindsNoRoomForItsThreadsIsOneErrorWithTheLimit) {
  const Job job = alone();
  if (!test::keeps_address_space()) GTEST_SKIP() << "no address-space limit is enforced here";
  EXPECT_EXIT(
      {
        test::leave_address_space(64U << 20U);
        ::_exit(guarded_main([&] {
          ReplicaTeam team(job.group(), {.replicas = 2000});
          return 0;
        }));
      },
      ::testing::ExitedWithCode(69), "of address space is allowed .ulimit -v");
}

TEST(ReplicaThreads, ThatFindNoRoomAreOneErrorWithTheLimit) {
  if (!test::keeps_address_space()) GTEST_SKIP() << "no address-space limit is enforced here";
  EXPECT_EXIT(
      {
        test::leave_address_space(64U << 20U);
        ::_exit(guarded_main([&] {
          const parallel::ReplicaThreads threads(2000, 1);
          return 0;
        }));
      },
      ::testing::ExitedWithCode(69), "of address space is allowed .ulimit -v");
}

TEST(ReplicaTeam, ThisReplicaOutsideOfAStepIsAnError) { EXPECT_THROW((void)this_replica(), UsageError); }

}  // namespace replicas_test
}  // namespace lockstep
