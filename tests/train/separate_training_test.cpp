// SPDX-License-Identifier: Apache-2.0
// Who forgets the wrapper is told so at the end of the first epoch, or when something is saved.
#include <ATen/core/ivalue.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/data/loader.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/tensor/sharing.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace separate_training_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kWords = "the 2 ranks have read different samples and reduced no gradients";

TEST(SeparateTraining, IsSeenByWhatWasReducedAndWhatWasStepped) {
  const auto found = [](const tensor::SharingSigns& signs) { return !tensor::separate_training(signs).empty(); };
  const std::int64_t weights = 100'000;
  EXPECT_TRUE(found({.world = 2, .divided = true, .batches = 10, .stepped = 10 * weights}));
  EXPECT_TRUE(found({.world = 2, .divided = true, .batches = 10, .stepped = 10 * weights, .reduced = 10 * 8}))
      << "a mean loss is no gradient";
  EXPECT_FALSE(found({.world = 2, .divided = true, .batches = 10, .stepped = 10 * weights, .reduced = 10 * weights}))
      << "averaged by hand";
  EXPECT_FALSE(found({.world = 2, .divided = true, .batches = 32, .stepped = 32 * weights, .reduced = weights}))
      << "weights averaged now and then";
  EXPECT_TRUE(found({.world = 2, .divided = true, .batches = 10, .reduced = 10 * 8})) << "another optimizer";
  EXPECT_FALSE(found({.world = 2, .divided = true, .batches = 10, .reduced = 10 * weights}));
  EXPECT_FALSE(found({.world = 2, .divided = false, .batches = 10})) << "an evaluation";
  EXPECT_FALSE(found({.world = 2, .wrapped = true, .divided = true, .batches = 10, .stepped = 10 * weights}));
  EXPECT_FALSE(found({.world = 1, .divided = true, .batches = 10, .stepped = 10 * weights}));
}

DataLoader loader_of(Job& job) {
  auto samples = make_dataset(64, [](std::int64_t i) {
    return Sample{at::full({64}, static_cast<double>(i) / 64), at::full({1}, static_cast<double>(i))};
  });
  return DataLoader{samples, job, {.batch_size = 4, .workers = 0, .shuffle = true}};
}

/// What is said while the ranks train for an epoch.
template <class Net, class Step>
std::string said(Job& job, Net& net, const Step& step, std::int64_t batches = 100) {
  DataLoader loader = loader_of(job);
  ::testing::internal::CaptureStderr();
  for (Batch& batch : loader.epoch(0)) {
    if (batches-- == 0) break;
    const at::Tensor loss = (net(batch.data) - batch.target).pow(2).mean();
    loss.backward();
    job.group().all_reduce(loss.detach()).wait();  // for the log
    step();
  }
  return ::testing::internal::GetCapturedStderr();
}

RANKS_TEST(SeparateTraining, WhoForgetsTheWrapperIsWarnedAtTheEndOfTheFirstEpoch, 2) {
  torch::nn::Linear net(64, 64);
  SGD optimizer{net, {.lr = 1e-3}};
  const auto step = [&] {
    optimizer.step();
    optimizer.zero_grad();
  };
  const std::string text = said(job, net, step);
  if (job.rank() == 0) {
    EXPECT_THAT(text, HasSubstr(kWords));
    EXPECT_THAT(text, HasSubstr("lockstep::DistributedDataParallel model{net, job};"));
  } else {
    EXPECT_THAT(text, IsEmpty());
  }
  EXPECT_THAT(said(job, net, [] {}), IsEmpty()) << "once";
}

RANKS_TEST(SeparateTraining, AlsoWithAnOptimizerOfLibtorch, 2) {
  torch::nn::Linear net(64, 64);
  torch::optim::SGD optimizer(net->parameters(), 1e-3);
  const std::string text = said(job, net, [&] { optimizer.step(); });
  if (job.rank() == 0) {
    EXPECT_THAT(text, HasSubstr(kWords));
  }
}

RANKS_TEST(SeparateTraining, AndWhereAnEpochHasNoEndWhenACheckpointIsSaved, 2) {
  torch::nn::Linear net(64, 64);
  SGD optimizer{net, {.lr = 1e-3}};
  EXPECT_THAT(said(
                  job, net, [&] { optimizer.step(); }, 3),
              IsEmpty());
  const test::TempDir folder;
  ::testing::internal::CaptureStderr();
  (void)commit_checkpoint(FileSystem::system(), folder.path(), {.step = 3}, {{"model", model_state_dict(*net)}});
  const std::string text = ::testing::internal::GetCapturedStderr();
  if (job.rank() == 0) {
    EXPECT_THAT(text, HasSubstr(kWords));
  }
}

RANKS_TEST(SeparateTraining, WithTheWrapperNothingIsSaid, 2) {
  DistributedDataParallel model{torch::nn::Linear(64, 64), job};
  SGD optimizer{model, {.lr = 1e-3}};
  EXPECT_THAT(said(job, model, [&] { optimizer.step(); }), IsEmpty());
}

RANKS_TEST(SeparateTraining, NorWhereGradientsAreAveragedByHand, 2) {
  torch::nn::Linear net(64, 64);
  SGD optimizer{net, {.lr = 1e-3}};
  const auto step = [&] {
    for (at::Tensor& parameter : net->parameters()) {
      job.group().all_reduce(parameter.grad(), {.op = ReduceOp::kMean}).wait();
    }
    optimizer.step();
  };
  EXPECT_THAT(said(job, net, step), IsEmpty());
}

}  // namespace separate_training_test
}  // namespace lockstep
