// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <limits>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/power_sgd.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/tensor/random.h"
#include "parallel/reducer/reducer.h"
#include "support/run_ranks.h"
#include "support/tree_model.h"

namespace lockstep {
namespace hooks_test {

using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::HasSubstr;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("first", first);
    register_module("last", last);
  }
  at::Tensor forward(const at::Tensor& x) { return last(first(x).tanh()).square().mean(); }
  torch::nn::Linear first{12, 16};
  torch::nn::Linear last{16, 10};
};
TORCH_MODULE(Net);

Net make_net() {
  seed_all(3);
  return Net();
}

at::Tensor input(int replica) { return at::randn({9, 12}, make_generator(static_cast<std::uint64_t>(replica) + 9)); }

std::vector<at::Tensor> own_gradients(int replica) {
  Net net = make_net();
  net->forward(input(replica)).backward();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& value : net->parameters()) gradients.push_back(value.grad());
  return gradients;
}

DdpOptions with_hook(CommunicationHook hook, int replicas = 0, std::int64_t bytes = 300) {
  return {.replicas = replicas, .hook = std::move(hook), .bucket_bytes = bytes};
}

/// A step of `replicas` replicas, on any number of ranks.
struct Training {
  Training(Job& job, int replicas, CommunicationHook hook, std::int64_t bytes = 300)
      : ddp(make_net(), job, with_hook(std::move(hook), replicas, bytes)),
        team(job.group(), {.replicas = replicas, .on_switch = [this](int local) { ddp.enter_replica(local); }}) {}

  std::vector<at::Tensor> step() {
    for (at::Tensor& parameter : ddp.parameters()) parameter.mutable_grad().reset();
    team.run([&](Replica& replica) { ddp(input(replica.index())).backward(); });
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& value : ddp.parameters()) gradients.push_back(value.grad().clone());
    return gradients;
  }

  DistributedDataParallel<NetImpl> ddp;
  ReplicaTeam team;
};

class HookWorlds : public ::testing::TestWithParam<int> {};

TEST_P(HookWorlds, CompressedGradientsHaveTheBitsOfRoundedReplicasAddedInTreeOrder) {
  run_ranks(current_test(),
            [](Job& job) {
              for (const auto dtype : {at::kBFloat16, at::kHalf}) {
                Training run(job, 4, dtype == at::kHalf ? hooks::fp16_compress() : hooks::bf16_compress());
                for (int step = 0; step < 2; ++step) {
                  const std::vector<at::Tensor> gradients = run.step();
                  for (std::size_t i = 0; i < gradients.size(); ++i) {
                    std::vector<at::Tensor> rounded;
                    for (int replica = 0; replica < 4; ++replica) {
                      rounded.push_back(own_gradients(replica)[i].to(dtype).div_(4));
                    }
                    const at::Tensor expected = comm::model(rounded, ReduceOp::kSum).to(at::kFloat);
                    ASSERT_TRUE(comm::same_bits(gradients[i], expected)) << "parameter " << i << ", " << dtype;
                  }
                }
              }
            },
            {.world = GetParam()});
}

INSTANTIATE_TEST_SUITE_P(OneToFour, HookWorlds, ::testing::Values(1, 2, 3, 4));

RANKS_TEST(Hooks, AUsersLambdaSeesNamesViewsAndTheLastBucket, 2) {
  std::vector<std::string> names;
  std::vector<int> order;
  const CommunicationHook hook = [&](GradBucket& bucket) -> HookStage {
    for (std::size_t i = 0; i < bucket.parameters().size(); ++i) {
      names.push_back(bucket.parameters()[i].name);
      bucket.view(i).add_(job.rank());
    }
    order.push_back(bucket.is_last() ? -1 : bucket.index());
    auto sum = bucket.all_reduce({bucket.gradient()});
    return {{sum.work}, [&bucket, sum] {
              bucket.result().copy_(sum.value()).div_(bucket.divisor());
              return HookStage{};
            }};
  };
  DistributedDataParallel plain(make_net(), job);
  plain(input(job.rank())).backward();
  DistributedDataParallel model(make_net(), job, with_hook(hook));
  model(input(job.rank())).backward();
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("first.weight", "first.bias", "last.weight", "last.bias"));
  EXPECT_EQ(order.front(), 0);
  EXPECT_EQ(order.back(), -1);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(at::allclose(model.parameters()[i].grad(), plain.parameters()[i].grad() + 0.5)) << i;
  }
}

RANKS_TEST(Hooks, SeveralReplicasOfARankAreSeenEach, 1) {
  std::map<std::string, std::vector<at::Tensor>> expected;
  for (int replica = 0; replica < 3; ++replica) {
    const std::vector<at::Tensor> own = own_gradients(replica);
    for (std::size_t i = 0; i < own.size(); ++i) expected[named_parameters_of(*make_net())[i].first].push_back(own[i]);
  }
  int seen = 0;
  const CommunicationHook hook = [&](GradBucket& bucket) -> HookStage {
    for (int local = 0; local < bucket.block().size(); ++local, ++seen) {
      const at::Tensor& own = expected.at(bucket.parameters().front().name)[static_cast<std::size_t>(local)];
      EXPECT_TRUE(comm::same_bits(bucket.view(0, local), own));
    }
    return {};
  };
  Training run(job, 3, hook);
  (void)run.step();
  EXPECT_GE(seen, 6);
}

RANKS_TEST(Hooks, AHookThatFailsOnOneRankEndsAllRanks, 2) {
  const CommunicationHook hook = [&](GradBucket& bucket) -> HookStage {
    if (!job.is_main()) throw DataError("the hook has no key");
    return {{bucket.all_reduce({bucket.gradient()}).work}};
  };
  DistributedDataParallel model(make_net(), job, with_hook(hook));
  try {
    model(input(0)).backward();
    ADD_FAILURE() << "the error was lost";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("the hook has no key"));
  }
}

PowerSgdOptions thin(std::int64_t start = 1) { return {.rank = 3, .start_iter = start, .min_compression_rate = 1}; }

RANKS_TEST(PowerSgd, DoesNotDependOnBuckets, 2) {
  Training small(job, 3, hooks::power_sgd(thin()));
  Training large(job, 3, hooks::power_sgd(thin()), 1 << 20);
  EXPECT_GT(small.ddp.reducer().step().gradients().buckets().all().size(),
            large.ddp.reducer().step().gradients().buckets().all().size());
  for (int step = 0; step < 3; ++step) {
    const std::vector<at::Tensor> a = small.step();
    const std::vector<at::Tensor> b = large.step();
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(comm::same_bits(a[i], b[i])) << i << " in step " << step;
  }
}

RANKS_TEST(PowerSgd, FeedsBackWhatItLost, 2) {
  // The gradients are the same in every step, so the sum of the compressed gradients approaches the sum of the true
  // ones.
  auto state = std::make_shared<lockstep::PowerSgd>(thin(0));
  Training run(job, 2, hooks::power_sgd(state));
  const at::Tensor full = (own_gradients(0)[2] + own_gradients(1)[2]) / 2;
  at::Tensor sum = at::zeros_like(full);
  double first = 0;
  double last = 0;
  for (int step = 1; step <= 12; ++step) {
    sum += run.step()[2];
    const double missing = (full * step - sum).norm().item<double>() / full.norm().item<double>() / step;
    if (step == 1) first = missing;
    last = missing;
  }
  EXPECT_LT(last, first / 4);
  EXPECT_GT(first, 1e-3);  // rank 3 of 10: something was lost
}

RANKS_TEST(PowerSgd, GoesOnFromASavedStateOnAnotherNumberOfRanks, 2) {
  auto state = std::make_shared<lockstep::PowerSgd>(thin());
  Training whole(job, 4, hooks::power_sgd(state));
  for (int step = 0; step < 2; ++step) (void)whole.step();
  const StateDict saved = state->gather_state_dict(job.group());
  EXPECT_EQ(saved.count("error.0.first.weight") + saved.count("error.3.last.weight"), 2U);
  EXPECT_EQ(state->state_dict().count("error.3.last.weight"), job.is_main() ? 0U : 1U);
  auto loaded = std::make_shared<lockstep::PowerSgd>(thin());
  loaded->load_state_dict(saved);
  Training resumed(job, 4, hooks::power_sgd(loaded));
  const std::vector<at::Tensor> a = whole.step();
  const std::vector<at::Tensor> b = resumed.step();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(comm::same_bits(a[i], b[i])) << i;
}

RANKS_TEST(PowerSgd, GoesOnFromASavedStateOfAnotherRank, 2) {
  auto state = std::make_shared<lockstep::PowerSgd>(thin());
  Training narrow(job, 2, hooks::power_sgd(state));
  for (int step = 0; step < 3; ++step) (void)narrow.step();
  PowerSgdOptions wide = thin();
  wide.rank = 5;
  auto loaded = std::make_shared<lockstep::PowerSgd>(wide);
  loaded->load_state_dict(state->gather_state_dict(job.group()));
  Training resumed(job, 2, hooks::power_sgd(loaded));
  (void)resumed.step();
  EXPECT_EQ(std::get<at::Tensor>(loaded->state_dict().at("q.first.weight")).size(1), 5);
}

RANKS_TEST(PowerSgd, UsesNoSavedEntryThatItsOptionsTurnOff, 2) {
  auto state = std::make_shared<lockstep::PowerSgd>(thin());
  Training run(job, 2, hooks::power_sgd(state));
  for (int step = 0; step < 3; ++step) (void)run.step();
  PowerSgdOptions plain = thin();
  plain.use_error_feedback = false;
  plain.warm_start = false;
  const StateDict saved = state->gather_state_dict(job.group());
  auto fresh = std::make_shared<lockstep::PowerSgd>(plain);
  fresh->load_state_dict({{"iterations", saved.at("iterations")}});
  auto loaded = std::make_shared<lockstep::PowerSgd>(plain);
  loaded->load_state_dict(saved);
  const std::vector<at::Tensor> a = Training(job, 2, hooks::power_sgd(fresh)).step();
  const std::vector<at::Tensor> b = Training(job, 2, hooks::power_sgd(loaded)).step();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(comm::same_bits(a[i], b[i])) << i;
}

RANKS_TEST(PowerSgd, GradientsOfZerosStayZeros, 1) {
  DistributedDataParallel model(make_net(), job, with_hook(hooks::power_sgd(thin(0))));
  (model(input(0)) * 0).backward();
  for (const at::Tensor& value : model.parameters()) EXPECT_EQ(value.grad().abs().sum().item<double>(), 0);
}

RANKS_TEST(PowerSgd, TakesAChannelsLastWeightAsItLies, 1) {
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(8, 6, 3));
  conv->weight.set_data(conv->weight.detach().contiguous(at::MemoryFormat::ChannelsLast));
  // A gradient of rank 1 comes back unchanged. This one has rank 1, because it is the same for every output channel.
  DistributedDataParallel model(conv, job, with_hook(hooks::power_sgd({.rank = 1, .start_iter = 0})));
  const at::Tensor images = at::randn({2, 8, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  model(images).sum().backward();
  const at::Tensor gradient = conv->weight.grad();
  EXPECT_EQ(gradient.strides(), conv->weight.strides());
  torch::nn::Conv2d alone(torch::nn::Conv2dOptions(8, 6, 3));
  alone(images).sum().backward();
  EXPECT_TRUE(at::allclose(gradient, alone->weight.grad(), 1e-4, 1e-4));
}

/// Steps with a scaled loss; returns true if the optimizer took the step.
struct ScaledTraining {
  ScaledTraining(Job& job, std::shared_ptr<lockstep::PowerSgd> state, double init_scale)
      : ddp(make_net(), job, with_hook(hooks::power_sgd(std::move(state)))),
        optimizer(named_parameters_of(ddp), {.lr = 0.01}),
        scaler({.init_scale = init_scale, .combine = [&job](const at::Tensor& found) {
                  job.group().all_reduce(found, {.op = ReduceOp::kMax}).wait();
                }}) {}

  bool step(const at::Tensor& images, double factor) {
    optimizer.zero_grad();
    scaler.scale(ddp(images) * factor).backward();
    const bool stepped = scaler.step(optimizer);
    scaler.update();
    return stepped;
  }

  DistributedDataParallel<NetImpl> ddp;
  SGD optimizer;
  GradScaler scaler;
};

RANKS_TEST(PowerSgd, StepsAreTakenAgainAfterAnOverflowOnOneRank, 2) {
  for (const std::int64_t start : {0, 2}) {  // a compressed gradient overflows, or all are still reduced uncompressed
    auto state = std::make_shared<lockstep::PowerSgd>(thin(start));
    ScaledTraining run(job, state, 65536);
    EXPECT_TRUE(run.step(input(job.rank()), 1));
    EXPECT_FALSE(run.step(input(job.rank()), job.rank() == 1 ? 1e36 : 1));
    for (int step = 0; step < 3; ++step) EXPECT_TRUE(run.step(input(job.rank()), 1)) << step << ", from " << start;
    for (const auto& [name, value] : state->state_dict()) {
      if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
        EXPECT_TRUE(at::isfinite(*tensor).all().item<bool>()) << name;
      }
    }
  }
}

RANKS_TEST(PowerSgd, ABucketThatOverflowsInAPlainParameterKeepsItsState, 2) {
  auto state = std::make_shared<lockstep::PowerSgd>(thin(0));
  DistributedDataParallel model(make_net(), job, with_hook(hooks::power_sgd(state), 0, 1 << 20));
  model(input(job.rank())).backward();
  const StateDict before = state->gather_state_dict(job.group());
  model.parameters()[3].register_hook([&job](const at::Tensor& gradient) {  // last.bias
    return job.is_main() ? gradient * std::numeric_limits<float>::infinity() : gradient;
  });
  model(input(job.rank())).backward();
  const StateDict after = state->gather_state_dict(job.group());
  for (const auto& [name, value] : before) {
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
      EXPECT_TRUE(comm::same_bits(*tensor, std::get<at::Tensor>(after.at(name)))) << name;
    }
  }
}

RANKS_TEST(PowerSgd, AChangeOfTheLossesScaleDoesNotSpoilWhatItFeedsBack, 2) {
  double scale = 1;
  PowerSgdOptions options = thin(0);
  Training plain(job, 2, hooks::power_sgd(options));
  options.loss_scale = [&scale] { return scale; };
  DistributedDataParallel scaled(make_net(), job, with_hook(hooks::power_sgd(options)));
  for (const double next : {1024.0, 512.0, 8192.0, 1.0}) {
    scale = next;
    for (at::Tensor& parameter : scaled.parameters()) parameter.mutable_grad().reset();
    (scaled(input(job.rank())) * scale).backward();
    const std::vector<at::Tensor> expected = plain.step();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(comm::same_bits(scaled.parameters()[i].grad() / scale, expected[i])) << i << " at " << scale;
    }
  }
}

TEST(PowerSgd, LeavesOutWhatIsNotFiniteInASavedState) {
  const at::Tensor bad = at::ones({2}) / 0;
  lockstep::PowerSgd state;
  state.load_state_dict({{"iterations", std::int64_t{1}}, {"error.0.x", bad}, {"q.x", bad}, {"q.y", at::ones({2})}});
  EXPECT_THAT(state.state_dict(), ::testing::SizeIs(2));
}

TEST(PowerSgd, RefusesStatesThatAreNone) {
  lockstep::PowerSgd state;
  EXPECT_THROW(state.load_state_dict({}), DataError);
  EXPECT_THROW(state.load_state_dict({{"iterations", std::int64_t{1}}, {"error.x", at::ones({1})}}), DataError);
  EXPECT_THROW(lockstep::PowerSgd({.rank = 0}), UsageError);
}

}  // namespace hooks_test
}  // namespace lockstep
