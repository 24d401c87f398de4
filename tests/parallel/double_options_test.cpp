// SPDX-License-Identifier: Apache-2.0
// DistributedDataParallel beyond the plain step, on several fake GPUs against one process.
#include "support/host_waits.h"
// then the headers that need torch
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <limits>

#include "lockstep/optim/ema.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/join.h"
#include "parallel/device_training.h"
#include "support/double/ranks.h"

namespace lockstep {
namespace double_options_test {

using namespace device_training;  // NOLINT(google-build-using-namespace): this file is about it
using testing::current_test;
using testing::found_races;
using ::testing::IsEmpty;
using testing::ranks_on_gpus;
using testing::run_ranks;

class DoubleWorlds : public ::testing::TestWithParam<int> {
 protected:
  static void on_gpus(const std::function<void(Job&)>& body) {
    run_ranks(
        current_test(),
        [&](Job& job) {
          body(job);
          EXPECT_THAT(found_races(), IsEmpty());
        },
        ranks_on_gpus(GetParam(), {{"LOCKSTEP_DOUBLE_DELAY_US", "500"}}));
  }
};

const DdpOptions kSeveralBuckets{.first_bucket_bytes = 64, .bucket_bytes = 600};

at::Tensor part_of(int rank, int world) { return samples().chunk(world)[static_cast<std::size_t>(rank)]; }

void expect_like_one_process(Job& job, Net& found, Net& expected) {
  const std::vector<at::Tensor> weights = weights_of(*found);
  expect_same_on_all_ranks(job, weights);
  expect_close(weights, weights_of(*expected));
}

/// Trains on all samples in one process, and on the rank's part of them with `options`.
void expect_to_train_as_one_with(Job& job, const DdpOptions& options) {
  Net net = make_net(job.device());
  DistributedDataParallel model{net, job, options};
  AdamW optimizer(model, AdamWOptions{.lr = 1e-2});
  train(model, optimizer, samples_of(job));
  Net alone = make_net(c10::Device(c10::kCPU));
  AdamW whole(*alone, {.lr = 1e-2});
  train(alone, whole, samples());
  expect_like_one_process(job, net, alone);
}

/// The plain mean, in two stages.
HookStage mean(GradBucket& bucket) {
  const at::Tensor sum = bucket.gradient();
  Work work = bucket.group().all_reduce(sum);
  return {{work}, [&bucket, sum] {
            bucket.result().copy_(sum).div_(bucket.divisor());
            return HookStage{};
          }};
}

TEST_P(DoubleWorlds, TakeTheMeanByAHook) {
  on_gpus([](Job& job) {
    DdpOptions options = kSeveralBuckets;
    options.hook = mean;
    expect_to_train_as_one_with(job, options);
  });
}

TEST_P(DoubleWorlds, KeepGradientsThatAreNoViewsOfTheirBucket) {
  on_gpus([](Job& job) {
    DdpOptions options = kSeveralBuckets;
    options.gradient_as_bucket_view = false;
    expect_to_train_as_one_with(job, options);
  });
}

TEST_P(DoubleWorlds, ExchangeGradientsOf16Bits) {
  on_gpus([](Job& job) {
    Net net = make_net(job.device());
    DdpOptions options = kSeveralBuckets;
    options.hook = hooks::bf16_compress();
    DistributedDataParallel model{net, job, options};
    SGD optimizer(model, SGDOptions{.lr = 1e-1});
    train(model, optimizer, samples_of(job));
    Net alone = make_net(c10::Device(c10::kCPU));
    SGD whole(*alone, SGDOptions{.lr = 1e-1});
    train(alone, whole, samples());
    const std::vector<at::Tensor> found = weights_of(*net);
    const std::vector<at::Tensor> expected = weights_of(*alone);
    expect_same_on_all_ranks(job, found);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].allclose(expected[i], 1e-2, 1e-3)) << i;
  });
}

/// A layer that is used twice, one that odd ranks use on even steps, and one that no rank uses.
struct BranchedImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x, bool branch) {
    at::Tensor y = shared(shared(x).tanh());
    if (branch) y = y + seldom(x);
    return y;
  }
  torch::nn::Linear shared = register_module("shared", torch::nn::Linear(8, 8));
  torch::nn::Linear seldom = register_module("seldom", torch::nn::Linear(8, 8));
  torch::nn::Linear never = register_module("never", torch::nn::Linear(8, 8));
};
TORCH_MODULE(Branched);

Branched make_branched(const c10::Device& device) {
  seed_all(3);
  Branched net;
  net->to(device);
  return net;
}

using Branch = std::function<bool(int step, int rank)>;

/// The ranks' steps with these options against the same steps in one process: the mean over the ranks' samples.
void expect_branches_to_train_as_one(Job& job, const DdpOptions& options, const Branch& branch) {
  const int world = job.world_size();
  Branched net = make_branched(job.device());
  DistributedDataParallel model{net, job, options};
  SGD optimizer(model, SGDOptions{.lr = 1e-1});
  Branched alone = make_branched(c10::Device(c10::kCPU));
  SGD whole(*alone, SGDOptions{.lr = 1e-1});
  const at::Tensor own = samples_of(job);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    model(own, branch(step, job.rank())).square().mean().backward();
    optimizer.step();
    whole.zero_grad();
    for (int rank = 0; rank < world; ++rank) {
      alone->forward(part_of(rank, world), branch(step, rank)).square().mean().div(world).backward();
    }
    whole.step();
  }
  const std::vector<at::Tensor> weights = weights_of(*net);
  expect_same_on_all_ranks(job, weights);
  expect_close(weights, weights_of(*alone));
}

TEST_P(DoubleWorlds, FindTheParametersThatARankDoesNotUse) {
  on_gpus([](Job& job) {
    DdpOptions options = kSeveralBuckets;
    options.find_unused_parameters = true;
    expect_branches_to_train_as_one(job, options, [](int step, int rank) { return step % 2 == 0 && rank % 2 == 1; });
  });
}

TEST_P(DoubleWorlds, TrainAStaticGraphThatUsesALayerTwiceAndAnotherNever) {
  on_gpus([](Job& job) {
    DdpOptions options = kSeveralBuckets;
    options.static_graph = true;
    expect_branches_to_train_as_one(job, options, [](int /*step*/, int /*rank*/) { return true; });
  });
}

TEST_P(DoubleWorlds, AddUpTheGradientsOfTwoBatchesBeforeTheyReduce) {
  on_gpus([](Job& job) {
    Net net = make_net(job.device());
    DistributedDataParallel model{net, job, kSeveralBuckets};
    AdamW optimizer(model, AdamWOptions{.lr = 1e-2});
    const std::vector<at::Tensor> halves = samples_of(job).chunk(2);
    const auto backward = [&](const at::Tensor& rows) { model(rows).square().sum().div(24 * 4).backward(); };
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      {
        const auto local = model.no_sync();
        backward(halves[0]);
      }
      backward(halves[1]);
      for (const at::Tensor& parameter : net->parameters()) parameter.grad().mul_(job.world_size());
      optimizer.step();
    }
    Net alone = make_net(c10::Device(c10::kCPU));
    AdamW whole(*alone, {.lr = 1e-2});
    train(alone, whole, samples());
    expect_like_one_process(job, net, alone);
  });
}

/// Rank r has r + 1 batches of three rows.
at::Tensor batch_of(int rank, int step) {
  seed_all(static_cast<std::uint64_t>(100 * rank + step));
  return at::randn({3, 8});
}

TEST_P(DoubleWorlds, JoinWhereSomeHaveFewerBatches) {
  on_gpus([](Job& job) {
    const int world = job.world_size();
    Net net = make_net(job.device());
    DistributedDataParallel model{net, job, kSeveralBuckets};
    AdamW optimizer(model, AdamWOptions{.lr = 1e-2});
    JoinedState state{optimizer, job.group()};
    Join join{{&model, &state}};
    join.run([&] {
      for (int step = 0; step <= job.rank(); ++step) {
        optimizer.zero_grad();
        model(batch_of(job.rank(), step).to(job.device())).square().mean().backward();
        optimizer.step();
      }
    });
    Net alone = make_net(c10::Device(c10::kCPU));
    AdamW whole(*alone, {.lr = 1e-2});
    for (int step = 0; step < world; ++step) {
      whole.zero_grad();
      for (int rank = step; rank < world; ++rank) {
        alone->forward(batch_of(rank, step)).square().mean().div(world).backward();
      }
      whole.step();
    }
    expect_like_one_process(job, net, alone);
  });
}

constexpr int kBadStep = 1;

/// Three steps with a scaled loss. The second step's loss is infinite: on rank `bad_rank`, or in the single process.
template <class Model>
std::vector<bool> train_scaled(Model& model, Optimizer& optimizer, GradScaler& scaler, const at::Tensor& rows,
                               bool is_bad) {
  std::vector<bool> stepped;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    at::Tensor loss = model(rows).square().mean();
    if (is_bad && step == kBadStep) loss = loss * std::numeric_limits<double>::infinity();
    scaler.scale(loss).backward();
    stepped.push_back(scaler.step(optimizer));
    scaler.update();
  }
  return stepped;
}

void expect_a_skipped_step(Job& job, const MakeOptimizer& make_optimizer) {
  GradScalerOptions options;
  options.combine = [&](const at::Tensor& found) { job.group().all_reduce(found, {.op = ReduceOp::kMax}).wait(); };
  GradScaler scaler(options);
  Net net = make_net(job.device());
  DistributedDataParallel model{net, job, kSeveralBuckets};
  const auto optimizer = make_optimizer(model, job);
  const bool is_bad = job.rank() == job.world_size() - 1;
  const std::vector<bool> stepped = train_scaled(model, *optimizer, scaler, samples_of(job), is_bad);
  EXPECT_EQ(stepped, (std::vector<bool>{true, false, true}));
  EXPECT_EQ(scaler.get_scale(), 32768);
  Net alone = make_net(c10::Device(c10::kCPU));
  AdamW whole(*alone, {.lr = 1e-2});
  GradScaler scaler_of_one;
  (void)train_scaled(alone, whole, scaler_of_one, samples(), true);
  expect_like_one_process(job, net, alone);
}

TEST_P(DoubleWorlds, SkipAStepThatOverflowsOnOneRank) {
  on_gpus([](Job& job) { expect_a_skipped_step(job, plain_adamw); });
}

/// Only the rank whose shard has the bad gradients sees them.
TEST_P(DoubleWorlds, SkipAStepThatOverflowsInOneShard) {
  on_gpus([](Job& job) { expect_a_skipped_step(job, sharded_adamw); });
}

TEST_P(DoubleWorlds, AverageTheirWeights) {
  on_gpus([](Job& job) {
    const EMAOptions decay{.decay = 0.5, .warmups = 0};
    const auto train_averaged = [&](auto& model, Net& net, const at::Tensor& rows) {
      AdamW optimizer(*net, AdamWOptions{.lr = 1e-2});
      EMA average(*net, decay);
      for (int step = 0; step < kSteps; ++step) {
        optimizer.zero_grad();
        model(rows).square().mean().backward();
        optimizer.step();
        average.update();
      }
      const EMA::Swapped swapped = average.swap_in();
      std::vector<at::Tensor> averages = weights_of(*net);
      for (at::Tensor& one : averages) one = one.clone();  // they are swapped back
      return averages;
    };
    Net net = make_net(job.device());
    DistributedDataParallel model{net, job, kSeveralBuckets};
    const std::vector<at::Tensor> found = train_averaged(model, net, samples_of(job));
    Net alone = make_net(c10::Device(c10::kCPU));
    expect_same_on_all_ranks(job, found);
    expect_close(found, train_averaged(alone, alone, samples()));
  });
}

INSTANTIATE_TEST_SUITE_P(Of, DoubleWorlds, ::testing::Values(2, 3, 4));

}  // namespace double_options_test
}  // namespace lockstep
