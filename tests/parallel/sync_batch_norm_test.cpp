// SPDX-License-Identifier: Apache-2.0
// Batch norm over all replicas: against torch's over the concatenated batches, and bit for bit the same on any number
// of ranks.
#include "lockstep/parallel/sync_batch_norm.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/tensor/random.h"
#include "support/run_ranks.h"
#include "support/tree_model.h"

namespace lockstep {
namespace sync_batch_norm_test {

using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::HasSubstr;

constexpr int kReplicas = 4;

/// Three convolutions, the last two with a batch norm whose input needs a gradient: there are collectives inside
/// backward.
template <class Norm>
struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("first", first);
    register_module("norm1", norm1);
    register_module("second", second);
    register_module("norm2", norm2);
  }
  at::Tensor forward(const at::Tensor& x) { return norm2(second(norm1(first(x)).relu())).pow(3).flatten(1).mean(1); }
  torch::nn::Conv2d first{torch::nn::Conv2dOptions(1, 6, 3).padding(1)};
  Norm norm1{6};
  torch::nn::Conv2d second{torch::nn::Conv2dOptions(6, 5, 3).padding(1)};
  Norm norm2{5};
};
using Net = NetImpl<nn::BatchNorm2d>;
using TorchNet = NetImpl<torch::nn::BatchNorm2d>;

/// Uses one convolution twice, with a collective in between.
struct SharedNet : torch::nn::Module {
  SharedNet() {
    register_module("first", first);
    register_module("shared", shared);
    register_module("norm1", norm1);
    register_module("norm2", norm2);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor once = norm1(shared(first(x))).relu();
    return norm2(shared(once)).pow(3).flatten(1).mean(1);
  }
  torch::nn::Conv2d first{torch::nn::Conv2dOptions(1, 6, 3).padding(1)};
  torch::nn::Conv2d shared{torch::nn::Conv2dOptions(6, 6, 3).padding(1)};
  nn::BatchNorm2d norm1{6};
  nn::BatchNorm2d norm2{6};
};

template <class N = Net>
std::shared_ptr<N> make_net() {
  seed_all(3);
  return std::make_shared<N>();
}

at::Tensor input(int replica, int micro_batch, std::int64_t count) {
  auto generator = make_generator(static_cast<std::uint64_t>(100 * replica + micro_batch));
  return at::randn({count, 1, 8, 9}, generator) + replica;
}

/// A net whose statistics are synced across a group. Its step() runs one training step on all replicas.
template <class N = Net>
struct Model {
  explicit Model(ProcessGroup& group, int replicas = kReplicas)
      : ddp(make_net<N>(), group, DdpOptions{.replicas = replicas, .first_bucket_bytes = 300, .bucket_bytes = 300}),
        team(group, {.replicas = replicas, .on_switch = [this](int local) { ddp.enter_replica(local); }}) {
    EXPECT_EQ(sync_batch_norm(ddp, group), 2);
  }

  void step(int batches = 1, Amp amp = Amp::kNone) {
    team.run([&](Replica& replica) {
      for (int i = 0; i < batches; ++i) {
        const auto run = [&] {
          at::Tensor output;
          {
            const Autocast autocast(at::kCPU, amp);
            output = ddp(input(replica.index(), i, 4));
          }
          output.to(at::kFloat).mean().backward();
        };
        if (i + 1 == batches) {
          run();
        } else {
          const NoSync local = ddp.no_sync();
          run();
        }
      }
    });
  }
  void descend() {
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : ddp.parameters()) {
      parameter.sub_(parameter.grad(), 0.01);
      parameter.mutable_grad().reset();
    }
  }

  DistributedDataParallel<N> ddp;
  ReplicaTeam team;
};

template <class Module>
void expect_same_gradients(const Module& a, const Module& b, const std::string& what) {
  const auto left = a.named_parameters();
  const auto right = b.named_parameters();
  for (const auto& item : left) {
    EXPECT_TRUE(comm::same_bits(item.value().grad(), right[item.key()].grad())) << item.key() << " " << what;
  }
}

template <class N = Net>
void compare_with_one_rank(Job& job, int batches, Amp amp) {
  const auto local = job.group().split(job.rank());  // only this rank
  Model<N> here(job.group());
  Model<N> alone(*local);
  for (int step = 0; step < 3; ++step) {  // the second step has rebuilt buckets
    here.step(batches, amp);
    alone.step(batches, amp);
    const std::string what = "in step " + std::to_string(step) + " on " + std::to_string(job.world_size());
    expect_same_gradients(here.ddp.module(), alone.ddp.module(), what);
    here.descend();
    alone.descend();
  }
  here.ddp.sync_buffers();
  alone.ddp.sync_buffers();
  for (const auto& item : here.ddp.named_buffers()) {
    EXPECT_TRUE(comm::same_bits(item.value(), alone.ddp.named_buffers()[item.key()])) << item.key();
  }
}

class SyncedWorlds : public ::testing::TestWithParam<int> {};

TEST_P(SyncedWorlds, SyncedStepsHaveTheSameBitsAsOnOneRank) {
  run_ranks(current_test(),
            [](Job& job) {
              compare_with_one_rank(job, 1, Amp::kNone);
              compare_with_one_rank(job, 3, Amp::kNone);  // collectives in the backward of an accumulated batch
              compare_with_one_rank(job, 1, Amp::kBf16);
            },
            {.world = GetParam()});
}

/// A rank with one replica must not keep the 16-bit copy of the weight across the collective.
TEST_P(SyncedWorlds, TheGradientsOfAWeightUsedTwiceHaveTheSameBitsAsOnOneRank) {
  run_ranks(current_test(), [](Job& job) { compare_with_one_rank<SharedNet>(job, 1, Amp::kBf16); },
            {.world = GetParam()});
}
INSTANTIATE_TEST_SUITE_P(OneToFour, SyncedWorlds, ::testing::Values(1, 2, 3, 4));

bool close(const at::Tensor& a, const at::Tensor& b) {
  const double error = (a - b).norm().item<double>();
  return a.sizes() == b.sizes() && error <= 1e-5 * (b.norm().item<double>() + 1e-3);
}

/// Each replica's batch has `counts[replica]` samples; the loss is the sum over all samples / all counts.
void compare_with_torch(ReplicaTeam& team, DistributedDataParallel<Net>& ddp, const std::vector<std::int64_t>& counts) {
  const auto replicas = static_cast<int>(counts.size());
  std::vector<at::Tensor> batches;
  for (int replica = 0; replica < replicas; ++replica) {
    batches.push_back(input(replica, 0, counts[static_cast<std::size_t>(replica)]));
  }
  const at::Tensor whole = at::cat(batches);
  const auto expected = make_net<TorchNet>();
  const at::Tensor expected_output = expected->forward(whole);
  expected_output.mean().backward();
  team.run([&](Replica& replica) {
    const auto index = static_cast<std::size_t>(replica.index());
    const at::Tensor output = ddp(batches[index]);
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < index; ++i) begin += counts[i];
    EXPECT_TRUE(close(output.detach(), expected_output.detach().narrow(0, begin, counts[index])));
    (output.sum() * replicas / whole.size(0)).backward();
  });
  for (const auto& item : expected->named_parameters()) {
    if (item.key().find("bias") != std::string::npos && item.key().find("norm") == std::string::npos) continue;
    EXPECT_TRUE(close(ddp.named_parameters()[item.key()].grad(), item.value().grad())) << item.key();
  }
  for (const auto& item : expected->named_buffers()) {
    EXPECT_TRUE(close(ddp.named_buffers()[item.key()].to(at::kFloat), item.value().to(at::kFloat))) << item.key();
  }
}

RANKS_TEST(SyncBatchNorm, EqualsTorchsOverTheBatchesPutTogether, 2) {
  for (const auto& counts : {std::vector<std::int64_t>{4, 4, 4, 4}, std::vector<std::int64_t>{1, 5, 2, 3}}) {
    Model<> model(job.group());
    compare_with_torch(model.team, model.ddp, counts);
  }
}

RANKS_TEST(SyncBatchNorm, WorksWithoutATeamWithOneReplicaPerRank, 3) {
  DistributedDataParallel ddp(make_net(), job);
  sync_batch_norm(ddp, job);
  const std::vector<std::int64_t> counts{2, 1, 5};
  const auto own = static_cast<std::size_t>(job.rank());
  std::vector<at::Tensor> batches;
  for (int rank = 0; rank < 3; ++rank) batches.push_back(input(rank, 0, counts[static_cast<std::size_t>(rank)]));
  const auto expected = make_net<TorchNet>();
  expected->forward(at::cat(batches)).mean().backward();
  (ddp(batches[own]).sum() * 3 / 8).backward();
  for (const char* name : {"first.weight", "norm1.weight", "norm1.bias", "second.weight", "norm2.weight"}) {
    EXPECT_TRUE(close(ddp.named_parameters()[name].grad(), expected->named_parameters()[name].grad())) << name;
  }
  EXPECT_TRUE(close(ddp.module().norm2->running_var, expected->norm2->running_var));
}

RANKS_TEST(SyncBatchNorm, LayersKeepTheJobThatTheyWereSyncedWith, 2) {
  nn::BatchNorm2d norm(1);
  const double value = job.rank();
  {
    Job last = std::exchange(job, Job());
    sync_batch_norm(*norm, last);
  }
  const at::NoGradGuard no_grad;
  (void)norm->forward(at::full({1, 1, 1, 1}, value));
  EXPECT_NEAR(norm->running_mean.item<double>(), 0.05, 1e-6);
}

RANKS_TEST(SyncBatchNorm, ARankWithoutASampleTakesPart, 2) {
  nn::BatchNorm2d norm(5);
  sync_batch_norm(norm, job);
  torch::nn::BatchNorm2d plain(5);
  const at::Tensor some = at::randn({3, 5, 4, 4}, make_generator(1)).requires_grad_(true);
  const at::Tensor own = job.is_main() ? some : at::randn({0, 5, 4, 4}).requires_grad_(true);
  const at::Tensor again = some.detach().clone().requires_grad_(true);
  plain->forward(again).pow(3).sum().backward();
  norm->forward(own).pow(3).sum().backward();
  EXPECT_TRUE(close(norm->running_mean, plain->running_mean));
  EXPECT_TRUE(!job.is_main() || close(own.grad(), again.grad()));
}

RANKS_TEST(SyncBatchNorm, EvaluationCommunicatesNothing, 2) {
  nn::BatchNorm2d norm(5);
  sync_batch_norm(norm, job);
  norm->eval();
  if (job.is_main()) norm->forward(at::randn({3, 5, 4, 4}));  // would hang if it communicated
}

RANKS_TEST(SyncBatchNorm, AnErrorInOneReplicasBackwardEndsTheOthersAndTheirThreadsGoOn, 1) {
  Model<> model(job.group());
  bool failing = true;
  const auto step = [&] {
    model.team.run([&](Replica& replica) {
      at::Tensor output = model.ddp(input(replica.index(), 0, 4));
      if (failing && replica.index() == 2) {
        output.register_hook([](const at::Tensor&) -> at::Tensor { throw DataError("no gradient today"); });
      }
      output.mean().backward();
    });
  };
  try {
    step();
    ADD_FAILURE() << "the error was lost";
  } catch (const DataError& error) {
    EXPECT_EQ(error.message(), "no gradient today");
  }
  // The autograd engine of each replica's thread still works: a plain backward on the same threads completes normally.
  failing = false;
  model.team.run([&](Replica&) {
    const at::Tensor x = at::randn({2}).requires_grad_(true);
    x.sum().backward();
    EXPECT_TRUE(x.grad().defined());
  });
}

TEST(SyncBatchNorm, NamesTheLayerThatCannotBeSynced) {
  const char* program = "test";
  const Job job = init(1, &program);
  torch::nn::Sequential inner(nn::BatchNorm2d(3), torch::nn::BatchNorm2d(3));
  torch::nn::Module outer;
  outer.register_module("features", inner);
  try {
    sync_batch_norm(outer, job);
    ADD_FAILURE() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.message(), "'features.1' is a torch::nn::BatchNorm2d, whose statistics cannot be synced");
    EXPECT_THAT(error.what(), HasSubstr("use lockstep::nn::BatchNorm2d there"));
  }
  EXPECT_EQ(inner->ptr(0)->as<nn::BatchNorm2dImpl>()->statistics_sync(), nullptr);
}

}  // namespace sync_batch_norm_test
}  // namespace lockstep
