// SPDX-License-Identifier: Apache-2.0
// The gradient norm that reductions count has the bits of a pass over all gradients.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/optim/clip.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/parallel/zero.h"
#include "lockstep/tensor/random.h"
#include "support/run_ranks.h"

namespace lockstep {
namespace grad_norm_test {

using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;

/// Parameters of many blocks, of one, and in channels-last memory; their blocks do not end where a rank's share does.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("conv", conv);
    register_module("first", first);
    register_module("last", last);
    const at::NoGradGuard no_grad;
    conv->weight.set_data(conv->weight.contiguous(at::MemoryFormat::ChannelsLast));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor hidden = first(conv(x).flatten(1)).relu();
    return (uses_last ? last(hidden) : hidden).pow(2).mean();
  }
  bool uses_last = true;
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(16, 33, 3)};
  torch::nn::Linear first{132, 150};
  torch::nn::Linear last{150, 3};
};
TORCH_MODULE(Net);

Net make_net() {
  seed_all(3);
  return Net();
}

at::Tensor input(int replica, int step) {
  auto generator = make_generator(static_cast<std::uint64_t>(100 * replica + step));
  return at::rand({2, 16, 4, 4}, generator);
}

DdpOptions counting(int replicas) {
  return {.replicas = replicas, .first_bucket_bytes = 8000, .bucket_bytes = 50'000, .grad_norm = true};
}

struct Model {
  Model(Job& job, const DdpOptions& options)
      : ddp(make_net(), job, options),
        team(job.group(),
             {.replicas = options.replicas, .on_switch = [this](int local) { ddp.enter_replica(local); }}) {}
  void step(int number, double factor = 1) {
    for (at::Tensor& parameter : ddp.parameters()) parameter.mutable_grad().reset();
    team.run([&](Replica& replica) { (ddp(input(replica.index(), number)) * factor).backward(); });
  }
  DistributedDataParallel<NetImpl> ddp;
  ReplicaTeam team;
};

/// Over the first step's buckets and the rebuilt ones.
void compare_steps(Job& job, int replicas) {
  Model model(job, counting(replicas));
  for (int number = 0; number < 3; ++number) {
    model.step(number);
    const double expected = grad_norm(named_parameters_of(model.ddp));
    ASSERT_GT(expected, 0);
    EXPECT_EQ(model.ddp.grad_norm(), expected) << replicas << " replicas on " << job.world_size();
  }
}

class NormWorlds : public ::testing::TestWithParam<int> {};

TEST_P(NormWorlds, TheCountedNormHasTheBitsOfAPass) {
  run_ranks(current_test(),
            [](Job& job) {
              compare_steps(job, job.world_size());
              compare_steps(job, 5);
            },
            {.world = GetParam()});
}
INSTANTIATE_TEST_SUITE_P(OneToFour, NormWorlds, ::testing::Values(1, 2, 3, 4));

RANKS_TEST(GradNorm, IsCountedInTheReductionsAndNotReadAfterwards, 2) {
  Model model(job, counting(4));
  model.step(0);
  const double counted = model.ddp.grad_norm();
  for (const auto& item : named_parameters_of(model.ddp)) item.second.mutable_grad().zero_();
  EXPECT_EQ(model.ddp.grad_norm(), counted);
  EXPECT_EQ(grad_norm(named_parameters_of(model.ddp)), 0);
}

RANKS_TEST(GradNorm, OfAccumulatedGradientsIsOfTheirSum, 2) {
  Model model(job, counting(2));
  model.step(0);
  model.step(1);
  {
    const NoSync local = model.ddp.no_sync();
    model.ddp(input(job.rank(), 2)).backward();
  }
  EXPECT_EQ(model.ddp.grad_norm(), grad_norm(named_parameters_of(model.ddp)));
  model.ddp(input(job.rank(), 3)).backward();
  EXPECT_EQ(model.ddp.grad_norm(), grad_norm(named_parameters_of(model.ddp)));
}

RANKS_TEST(GradNorm, CountsAParameterThatKeptTheGradientOfAnEarlierStep, 2) {
  DdpOptions options = counting(2);
  options.find_unused_parameters = true;
  Model model(job, options);
  model.step(0);
  model.ddp.module().uses_last = false;
  const at::Tensor& kept = model.ddp.module().last->weight;
  kept.mutable_grad() = at::full(kept.sizes(), job.rank() + 1.0);  // so that the reduction has another one
  model.ddp(input(job.rank(), 1)).backward();
  ASSERT_EQ(kept.grad().max().item<double>(), job.rank() + 1.0);
  EXPECT_EQ(model.ddp.grad_norm(), grad_norm(named_parameters_of(model.ddp)));
  model.step(2);
  EXPECT_FALSE(model.ddp.module().last->weight.grad().defined());
  EXPECT_EQ(model.ddp.grad_norm(), grad_norm(named_parameters_of(model.ddp)));
}

RANKS_TEST(GradNorm, ThatIsNotFiniteIsNotFiniteOnEveryRank, 3) {
  Model model(job, counting(3));
  const bool spoils = job.rank() == 1;
  model.step(0, spoils ? std::numeric_limits<double>::infinity() : 1.0);
  EXPECT_FALSE(std::isfinite(model.ddp.grad_norm()));
  EXPECT_EQ(clip_factor(model.ddp.grad_norm(), 1.0), 1.0);
  model.step(1);
  EXPECT_EQ(model.ddp.grad_norm(), grad_norm(named_parameters_of(model.ddp)));
}

RANKS_TEST(GradNorm, OfShardedGradientsIsTheOptimizers, 2) {
  Model model(job, counting(2));
  ZeroRedundancyOptimizer optimizer(model.ddp, job, {}, {.shard_gradients = true});
  model.step(0);
  EXPECT_THROW((void)model.ddp.grad_norm(), UsageError);
  EXPECT_GT(optimizer.grad_norm(), 0);
}

}  // namespace grad_norm_test
}  // namespace lockstep
