// SPDX-License-Identifier: Apache-2.0
// Training on several fake GPUs against one process on the CPU; no stream reads what another is still writing.
#include "support/host_waits.h"
// then the headers that need torch
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>

#include "lockstep/nn/batch_norm.h"
#include "lockstep/parallel/data_parallel.h"
#include "lockstep/parallel/power_sgd.h"
#include "lockstep/parallel/sync_batch_norm.h"
#include "parallel/device_training.h"
#include "support/double/ranks.h"

namespace lockstep {
namespace double_test {

using namespace device_training;  // NOLINT(google-build-using-namespace): this file is about it
using testing::current_test;
using testing::found_races;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ranks_on_gpus;
using testing::RanksOptions;
using testing::run_ranks;

class DoubleWorlds : public ::testing::TestWithParam<int> {
 protected:
  void expect_to_train_as_one(const MakeOptimizer& make_optimizer, double max_norm = 0) {
    run_ranks(
        current_test(),
        [&](Job& job) {
          ASSERT_THAT(job.backend(), HasSubstr("nccl"));
          device_training::expect_to_train_as_one(job, make_optimizer, max_norm);
          EXPECT_THAT(found_races(), IsEmpty());
        },
        ranks_on_gpus(GetParam(), {{"LOCKSTEP_DOUBLE_DELAY_US", "1000"}}));
  }
};

TEST_P(DoubleWorlds, TrainAsOneProcessWithAllSamples) { expect_to_train_as_one(plain_adamw); }

TEST_P(DoubleWorlds, TrainAsOneProcessWithShardedStateAndGradients) { expect_to_train_as_one(sharded_adamw); }

TEST_P(DoubleWorlds, TrainAsOneProcessWithClippedGradients) { expect_to_train_as_one(plain_adamw, 0.05); }

TEST_P(DoubleWorlds, TrainAsOneProcessWithClippedGradientsAndShardedState) {
  expect_to_train_as_one(sharded_adamw, 0.05);
}

TEST_P(DoubleWorlds, GatherTheWholeStateOfAShardedOptimizer) {
  run_ranks(
      current_test(),
      [](Job& job) {
        Net net = make_net(job.device());
        DistributedDataParallel model{net, job};
        ZeroRedundancyOptimizer optimizer(model, job, AdamWOptions{.lr = 1e-2});
        train(model, optimizer, samples_of(job));
        optimizer.consolidate_state_dict();
        if (!job.is_main()) return;
        Net alone = make_net(c10::Device(c10::kCPU));
        AdamW whole(*alone, {.lr = 1e-2});
        train(alone, whole, samples());
        for (const auto& [name, value] : whole.state_dict()) {
          const auto* expected = std::get_if<at::Tensor>(&value);
          if (expected == nullptr) continue;
          const at::Tensor found = std::get<at::Tensor>(optimizer.state_dict().at(name)).cpu();
          EXPECT_TRUE(found.allclose(*expected, 1e-4, 1e-6)) << name;
        }
        EXPECT_THAT(found_races(), IsEmpty());
      },
      ranks_on_gpus(GetParam(), {{"LOCKSTEP_DOUBLE_DELAY_US", "1000"}}));
}

TEST_P(DoubleWorlds, ExchangeCompressedGradientsAndGatherTheirErrors) {
  run_ranks(
      current_test(),
      [](Job& job) {
        const auto power_sgd = std::make_shared<PowerSgd>(PowerSgdOptions{.start_iter = 2});
        Net net = make_net(job.device());
        DdpOptions options{.first_bucket_bytes = 64, .bucket_bytes = 600};
        options.hook = hooks::power_sgd(power_sgd);
        DistributedDataParallel model{net, job, options};
        AdamW optimizer(model, AdamWOptions{.lr = 1e-2});
        train(model, optimizer, samples_of(job));
        expect_same_on_all_ranks(job, weights_of(*net));
        const StateDict state = power_sgd->gather_state_dict(job.group());
        for (const auto& [name, value] : state) {
          const auto* tensor = std::get_if<at::Tensor>(&value);
          if (tensor != nullptr) {
            EXPECT_TRUE(tensor->mul(1).isfinite().all().item<bool>()) << name;
          }
        }
        EXPECT_GE(state.size(), static_cast<std::size_t>(job.world_size())) << "no errors";
        EXPECT_THAT(found_races(), IsEmpty());
      },
      ranks_on_gpus(GetParam(), {{"LOCKSTEP_DOUBLE_DELAY_US", "1000"}}));
}

template <class Norm>
struct NormNet : torch::nn::Module {
  NormNet() {
    register_module("first", first);
    register_module("norm", norm);
    register_module("second", second);
  }
  at::Tensor forward(const at::Tensor& x) { return second(norm(first(x).unflatten(1, {4, 2, 4})).relu().flatten(1)); }
  torch::nn::Linear first{8, 32};
  Norm norm{4};
  torch::nn::Linear second{32, 4};
};

template <class Norm>
std::shared_ptr<NormNet<Norm>> make_norm_net(const c10::Device& device) {
  seed_all(3);
  auto net = std::make_shared<NormNet<Norm>>();
  net->to(device);
  return net;
}

std::vector<at::Tensor> norms_trained_on_all_samples() {
  const auto net = make_norm_net<torch::nn::BatchNorm2d>(c10::Device(c10::kCPU));
  AdamW optimizer(*net, {.lr = 1e-2});
  const auto model = [&](const at::Tensor& rows) { return net->forward(rows); };
  train(model, optimizer, samples());
  return weights_of(*net);
}

TEST_P(DoubleWorlds, TrainAsOneProcessWithSyncedBatchNorm) {
  run_ranks(
      current_test(),
      [](Job& job) {
        const auto net = make_norm_net<nn::BatchNorm2d>(job.device());
        DistributedDataParallel model{net, job, DdpOptions{.first_bucket_bytes = 64, .bucket_bytes = 600}};
        EXPECT_EQ(sync_batch_norm(model, job.group()), 1);
        AdamW optimizer(model, AdamWOptions{.lr = 1e-2});
        train(model, optimizer, samples_of(job));
        const std::vector<at::Tensor> found = weights_of(*net);
        expect_same_on_all_ranks(job, found);
        expect_close(found, norms_trained_on_all_samples());
        EXPECT_THAT(found_races(), IsEmpty());
      },
      ranks_on_gpus(GetParam(), {{"LOCKSTEP_DOUBLE_DELAY_US", "1000"}}));
}

TEST(Double, EightGpusTrainAsOneProcess) {
  run_ranks(
      current_test(),
      [](Job& job) {
        expect_to_train_as_one(job, plain_adamw);
        EXPECT_THAT(found_races(), IsEmpty());
      },
      ranks_on_gpus(8));
}

/// Two hosts with two GPUs each, or one and two: tensors in host memory go over Lockstep's own wire.
TEST(Double, TwoHostsTrainAsOneProcess) {
  for (const std::vector<int>& hosts : {std::vector<int>{2, 2}, std::vector<int>{1, 2}}) {
    RanksOptions options = ranks_on_gpus(hosts[0] + hosts[1], {{"LOCKSTEP_DOUBLE_DELAY_US", "500"}});
    options.host_sizes = hosts;
    run_ranks(
        current_test(),
        [](Job& job) {
          EXPECT_EQ(job.backend(), "nccl");
          EXPECT_THAT(job.backend_reason(), HasSubstr("tensors in host memory go through shm+tcp"));
          for (const auto& optimizer : {plain_adamw, sharded_adamw}) {
            expect_to_train_as_one(job, optimizer);
            if (job.world_size() == 3) break;
          }
          EXPECT_THAT(found_races(), IsEmpty());
        },
        options);
  }
}

/// One process with two GPUs; the caller computes on a separate stream.
TEST(Double, TheReplicasOfDataParallelTakeTheStreamsOfTheirCaller) {
  run_ranks(
      current_test(),
      [](Job& /*job*/) {
        const c10::Device first(c10::kCUDA, 0);
        const c10::StreamGuard own(c10::impl::VirtualGuardImpl(c10::kCUDA).getStreamFromGlobalPool(first));
        Net net = make_net(first);
        DataParallel model{net, DataParallelOptions{.devices = {first, c10::Device(c10::kCUDA, 1)}}};
        AdamW optimizer(*net, {.lr = 1e-2});
        train(model, optimizer, samples().to(first));
        expect_close(weights_of(*net), trained_on_all_samples());
        EXPECT_THAT(found_races(), IsEmpty());
      },
      ranks_on_gpus(1, {{"LOCKSTEP_DOUBLE_GPUS", "2"}, {"LOCKSTEP_DOUBLE_DELAY_US", "1000"}}));
}

INSTANTIATE_TEST_SUITE_P(Of, DoubleWorlds, ::testing::Values(2, 3, 4));

}  // namespace double_test
}  // namespace lockstep
