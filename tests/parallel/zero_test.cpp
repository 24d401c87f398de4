// SPDX-License-Identifier: Apache-2.0
// A sharded AdamW against an unsharded one: the same bits in parameters, norm and checkpoints, with a fraction of the
// memory.
#include "lockstep/parallel/zero.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/optim/clip.h"
#include "lockstep/optim/lamb.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/join.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/tensor/random.h"
#include "support/run_ranks.h"
#include "support/tree_model.h"

namespace lockstep {
namespace zero_test {

using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::HasSubstr;

/// Parameters of several layouts and types; one never has a gradient.
NamedTensors make_parameters() {
  const auto random = [](std::uint64_t seed, std::vector<std::int64_t> sizes) {
    return at::randn(sizes, make_generator(seed));
  };
  NamedTensors items{{"conv.weight", random(1, {6, 5, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast)},
                     {"conv.bias", random(2, {6})},
                     {"head.weight", random(3, {70, 61}).t()},
                     {"head.bias", random(4, {61})},
                     {"head.scale", random(5, {})},
                     {"unused", random(6, {33})},
                     {"wide", random(7, {40}).to(at::kDouble)}};
  for (auto& item : items) item.second.requires_grad_(true);
  return items;
}

/// Sets gradients that are the same on every rank, as after DistributedDataParallel's backward.
void set_gradients(const NamedTensors& parameters, int step) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, value] = parameters[i];
    if (name == "unused") continue;
    if (name == "conv.bias" && step < 2) continue;  // this parameter takes fewer steps than the optimizer
    auto generator = make_generator(static_cast<std::uint64_t>(1000 * step) + i);
    const at::Tensor grad = at::randn(value.sizes(), generator).to(value.scalar_type());
    // Each gradient has its parameter's strides, as views of buckets do, except one with another layout, as a user may
    // set it.
    const at::NoGradGuard no_grad;
    value.mutable_grad() = name == "head.weight" ? grad : at::empty_like(value).copy_(grad);
  }
}

AdamWOptions options() {
  return {.lr = 1e-2, .weight_decay = 0.1, .no_decay = [](const std::string& name) { return name == "head.bias"; }};
}

struct Whole {
  explicit Whole(NamedTensors given) : parameters(std::move(given)), optimizer(parameters, options()) {}
  NamedTensors parameters;
  AdamW optimizer;
};

ZeroRedundancyOptimizer sharded(const NamedTensors& parameters, ProcessGroup& group) {
  return {parameters, group, [](NamedTensors parts) { return std::make_unique<AdamW>(std::move(parts), options()); }};
}

void step(Optimizer& optimizer, const NamedTensors& parameters, int number) {
  set_gradients(parameters, number);
  optimizer.set_lr(1e-2 / (number + 1));
  optimizer.step(clip_factor(optimizer.grad_norm(), 1.0));
  optimizer.zero_grad();
}

void expect_same(const NamedTensors& a, const NamedTensors& b, int number) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(comm::same_bits(a[i].second.detach(), b[i].second.detach())) << a[i].first << " in step " << number;
    EXPECT_EQ(a[i].second.strides(), b[i].second.strides()) << a[i].first;
  }
}

void expect_same_state(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, value] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
      EXPECT_TRUE(comm::same_bits(*tensor, std::get<at::Tensor>(b.at(name)))) << name;
    } else {
      EXPECT_EQ(std::get<std::int64_t>(value), std::get<std::int64_t>(b.at(name))) << name;
    }
  }
}

class ZeroWorlds : public ::testing::TestWithParam<int> {};

void compare_steps(Job& job) {
  Whole whole(make_parameters());
  NamedTensors parameters = make_parameters();
  ZeroRedundancyOptimizer zero = sharded(parameters, job.group());
  EXPECT_EQ(zero.parameters().size(), parameters.size());
  for (int number = 0; number < 4; ++number) {
    step(whole.optimizer, whole.parameters, number);
    step(zero, parameters, number);
    expect_same(parameters, whole.parameters, number);
  }
  EXPECT_EQ(zero.steps(), 4);
  EXPECT_EQ(zero.lr(), 1e-2 / 4);
  zero.consolidate_state_dict();
  if (job.is_main()) expect_same_state(zero.state_dict(), whole.optimizer.state_dict());
}

/// Loads the unsharded optimizer's state into a sharded one and the shards' state into an unsharded one, and continues.
void compare_states(Job& job) {
  Whole whole(make_parameters());
  for (int number = 0; number < 3; ++number) step(whole.optimizer, whole.parameters, number);
  NamedTensors parameters;
  for (const auto& [name, value] : whole.parameters) {
    parameters.emplace_back(name, value.detach().clone().requires_grad_(true));
  }
  ZeroRedundancyOptimizer zero = sharded(parameters, job.group());
  zero.load_state_dict(whole.optimizer.state_dict());
  step(whole.optimizer, whole.parameters, 3);
  step(zero, parameters, 3);
  expect_same(parameters, whole.parameters, 3);
  zero.consolidate_state_dict();
  if (!job.is_main()) return;
  Whole again(make_parameters());
  again.optimizer.load_state_dict(zero.state_dict());
  expect_same_state(again.optimizer.state_dict(), whole.optimizer.state_dict());
}

std::int64_t bytes_of(const StateDict& state) {
  std::int64_t bytes = 0;
  for (const auto& [name, value] : state) {
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) bytes += static_cast<std::int64_t>(tensor->nbytes());
  }
  return bytes;
}

RANKS_TEST(Zero, ARankHoldsItsPartOfTheStateOnly, 4) {
  torch::nn::Linear net(100, 100);
  const AdamW whole(*net);
  const ZeroRedundancyOptimizer zero(*net, job);
  const auto part = static_cast<double>(bytes_of(zero.local().state_dict()));
  EXPECT_NEAR(part, static_cast<double>(bytes_of(whole.state_dict())) / 4, 2 * 4 * 16);  // padding to 64 bytes
}

template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message();
  }
  return "nothing was thrown";
}

/// Parameters whose blocks of 4,096 elements end up on different ranks.
struct WideNetImpl : torch::nn::Module {
  WideNetImpl() {
    register_module("first", first);
    register_module("second", second);
  }
  at::Tensor forward(const at::Tensor& x) { return second(first(x).relu()); }
  torch::nn::Linear first{40, 301};
  torch::nn::Linear second{301, 57};
};

std::shared_ptr<WideNetImpl> make_wide_net() {
  seed_all(4);
  return std::make_shared<WideNetImpl>();
}

void compare_sharded_gradients(Job& job, int replicas) {
  const DdpOptions layout{.replicas = replicas, .first_bucket_bytes = 1000, .bucket_bytes = 30000};
  DistributedDataParallel plain(make_wide_net(), job, layout);
  DistributedDataParallel model(make_wide_net(), job, layout);
  AdamW whole(plain, {.lr = 0.01});
  ZeroRedundancyOptimizer zero(model, job, AdamWOptions{.lr = 0.01}, ZeroOptions{.shard_gradients = true});
  ReplicaTeam team(job.group(), {.replicas = replicas, .on_switch = [&](int local) {
                                   plain.enter_replica(local);
                                   model.enter_replica(local);
                                 }});
  for (int number = 0; number < 3; ++number) {
    team.run([&](Replica& replica) {
      const auto seed = static_cast<std::uint64_t>(100 * number + replica.index());
      const at::Tensor x = at::randn({4, 40}, make_generator(seed));
      plain(x).pow(2).sum().backward();
      model(x).pow(2).sum().backward();
    });
    const double norm = whole.grad_norm();
    EXPECT_EQ(zero.grad_norm(), norm);
    whole.step(clip_factor(norm, 1.0));
    zero.step(clip_factor(zero.grad_norm(), 1.0));
    whole.zero_grad();
    zero.zero_grad();
    for (const auto& item : plain.named_parameters()) {
      EXPECT_TRUE(comm::same_bits(model.named_parameters()[item.key()].detach(), item.value().detach()))
          << item.key() << " in step " << number << " of " << replicas << " replicas on " << job.world_size();
    }
  }
  zero.consolidate_state_dict();
  if (job.is_main()) expect_same_state(zero.state_dict(), whole.state_dict());
}

TEST_P(ZeroWorlds, StepsStatesAndShardedGradientsHaveTheBitsOfTheOptimizerAlone) {
  run_ranks(current_test(),
            [](Job& job) {
              compare_steps(job);
              compare_states(job);
              compare_sharded_gradients(job, job.world_size());
              compare_sharded_gradients(job, 5);
            },
            {.world = GetParam()});
}
INSTANTIATE_TEST_SUITE_P(OneToFour, ZeroWorlds, ::testing::Values(1, 2, 3, 4));

RANKS_TEST(Zero, ShardedGradientsNeedAWrappedModelAndEndWithTheOptimizer, 2) {
  torch::nn::Linear net(4, 3);
  EXPECT_EQ(error_of([&] { ZeroRedundancyOptimizer zero(*net, job, {}, {.shard_gradients = true}); }),
            "ZeroOptions::shard_gradients needs a DistributedDataParallel");
  DistributedDataParallel model(net, job);
  const auto gradient = [&] {
    model.module().zero_grad();
    model(at::ones({2, 4}) * (job.rank() + 1)).sum().backward();
    return model.module().weight.grad().clone();
  };
  const at::Tensor expected = gradient();
  { const ZeroRedundancyOptimizer zero(model, job, {}, {.shard_gradients = true}); }
  EXPECT_TRUE(comm::same_bits(gradient(), expected));
}

RANKS_TEST(Zero, TrainsUnderDistributedDataParallel, 3) {
  const auto make = [] {
    seed_all(4);
    return torch::nn::Linear(7, 5);
  };
  DistributedDataParallel plain(make(), job);
  DistributedDataParallel model(make(), job);
  AdamW whole(plain, {.lr = 0.1});
  ZeroRedundancyOptimizer zero(model, job, AdamWOptions{.lr = 0.1});
  for (int number = 0; number < 3; ++number) {
    const at::Tensor x = at::randn({4, 7}, make_generator(static_cast<std::uint64_t>(10 * number + job.rank())));
    plain(x).pow(2).sum().backward();
    model(x).pow(2).sum().backward();
    for (Optimizer* optimizer : std::initializer_list<Optimizer*>{&whole, &zero}) {
      optimizer->step();
      optimizer->zero_grad();
    }
    EXPECT_TRUE(comm::same_bits(model.module().weight.detach(), plain.module().weight.detach())) << number;
    EXPECT_TRUE(comm::same_bits(model.module().bias.detach(), plain.module().bias.detach())) << number;
  }
}

RANKS_TEST(Zero, TheStateIsRankZerosAfterConsolidatingAndUntilTheNextStep, 2) {
  NamedTensors parameters = make_parameters();
  ZeroRedundancyOptimizer zero = sharded(parameters, job.group());
  const char* expected = job.is_main() ? "the sharded optimizer's state has not been consolidated since its last step"
                                       : "only rank 0 has the whole state of a sharded optimizer";
  EXPECT_EQ(error_of([&] { (void)zero.state_dict(); }), expected);
  zero.consolidate_state_dict();
  EXPECT_TRUE(!job.is_main() || !zero.state_dict().empty());
  step(zero, parameters, 0);
  EXPECT_EQ(error_of([&] { (void)zero.state_dict(); }), expected);
}

RANKS_TEST(Zero, KeepsTheJobThatItWasMadeWith, 2) {
  torch::nn::Linear net(4, 3);
  const auto make = [&] {
    Job last = std::exchange(job, Job());
    return ZeroRedundancyOptimizer(*net, last);
  };
  ZeroRedundancyOptimizer zero = make();
  const at::Tensor before = net->weight.detach().clone();
  net->forward(at::ones({1, 4})).sum().backward();
  zero.step();
  EXPECT_FALSE(net->weight.equal(before));
}

RANKS_TEST(Zero, IsRefusedByAJoinBeforeItsFirstStep, 2) {
  torch::nn::Linear net(4, 3);
  ZeroRedundancyOptimizer zero(*net, job);
  EXPECT_THAT(error_of([&] { JoinedState(zero, job.group()); }), HasSubstr("a sharded optimizer cannot take part"));
}

RANKS_TEST(Zero, RefusesAStateThatDoesNotFit, 2) {
  NamedTensors parameters = make_parameters();
  ZeroRedundancyOptimizer zero = sharded(parameters, job.group());
  const StateDict good = AdamW(make_parameters(), options()).state_dict();
  StateDict state = good;
  state["head.bias.exp_avg"] = at::zeros({60});
  EXPECT_EQ(error_of([&] { zero.load_state_dict(state); }),
            "'head.bias.exp_avg' is [60] in the saved state but [61] here");
  state = good;
  state.erase("conv.bias.exp_avg_sq");
  EXPECT_THAT(error_of([&] { zero.load_state_dict(state); }), HasSubstr("lacks 'conv.bias.exp_avg_sq'"));
  state = good;
  state["no_such.exp_avg"] = at::zeros({61});
  EXPECT_THAT(error_of([&] { zero.load_state_dict(state); }), HasSubstr("'no_such.exp_avg', which is unknown here"));
  state = good;
  state.erase("step");
  EXPECT_THAT(error_of([&] { zero.load_state_dict(state); }), HasSubstr("no count 'step'"));
  zero.load_state_dict(good);
}

RANKS_TEST(Zero, NamesAParameterWhoseMemoryWasReplaced, 2) {
  torch::nn::Linear net(4, 3);
  ZeroRedundancyOptimizer zero(*net, job);
  net->bias.set_data(at::zeros({3}));
  EXPECT_EQ(error_of([&] { zero.step(); }),
            "the memory of parameter 'bias' was replaced after ZeroRedundancyOptimizer took it");
}

RANKS_TEST(Zero, ChangesWeightsSoThatABackwardWhichNeedsTheOldOnesThrows, 2) {
  torch::nn::Linear net(4, 3);
  ZeroRedundancyOptimizer zero(*net, job);
  net->forward(at::ones({1, 4})).sum().backward();
  const at::Tensor of_weight = net->weight.square().sum();
  const at::Tensor of_bias = net->bias.square().sum();
  zero.step();
  EXPECT_THROW(of_weight.backward(), c10::Error);
  EXPECT_THROW(of_bias.backward(), c10::Error);
}

RANKS_TEST(Zero, WorksWithFewerElementsThanRanks, 3) {
  NamedTensors parameters{{"only", at::zeros({1}).requires_grad_(true)}};
  ZeroRedundancyOptimizer zero(parameters, job.group(),
                               [](NamedTensors parts) { return std::make_unique<AdamW>(std::move(parts)); });
  parameters[0].second.mutable_grad() = at::ones({1});
  zero.step();
  EXPECT_NE(parameters[0].second.item<float>(), 0);
  zero.consolidate_state_dict();
}

RANKS_TEST(Zero, RefusesAnOptimizerThatNeedsWholeParameters, 2) {
  const NamedTensors parameters{{"only", at::ones({4}).requires_grad_(true)}};
  EXPECT_EQ(error_of([&] {
              const ZeroRedundancyOptimizer zero(
                  parameters, job.group(), [](NamedTensors parts) { return std::make_unique<LAMB>(std::move(parts)); });
            }),
            "ZeroRedundancyOptimizer cannot wrap an optimizer that needs the norms of whole parameters");
}

RANKS_TEST(Zero, ShardsAnyElementwiseOptimizerWithItsBits, 2) {
  const auto make = [](NamedTensors parameters) {
    return std::make_unique<SGD>(std::move(parameters),
                                 SGDOptions{.lr = 0.1, .momentum = 0.9, .groups = {{.pattern = "^bias", .lr = 0.3}}});
  };
  NamedTensors whole{{"weight", at::ones({5, 3})}, {"bias", at::ones({3})}};
  NamedTensors split{{"weight", at::ones({5, 3})}, {"bias", at::ones({3})}};
  const auto alone = make(whole);
  ZeroRedundancyOptimizer zero(split, job.group(), make);
  for (int step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < whole.size(); ++i) {
      whole[i].second.mutable_grad() = whole[i].second.sin();
      split[i].second.mutable_grad() = split[i].second.sin();
    }
    alone->step();
    zero.step();
  }
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(whole[i].second.equal(split[i].second)) << whole[i].first;
}

}  // namespace zero_test
}  // namespace lockstep
