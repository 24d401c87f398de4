// SPDX-License-Identifier: Apache-2.0
// The building blocks of a user's own loop: evaluation, per-rank state, accumulation, and a forgotten wrapper.
#include <ATen/core/ivalue.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/data/loader.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/tensor/random.h"
#include "lockstep/tensor/sharing.h"
#include "lockstep/train/evaluate_sharded.h"
#include "support/alone.h"
#include "support/fault_of.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "support/tree_model.h"
#include "train/ranks/share_state.h"
#include "train/step/step_runner.h"

namespace lockstep {
namespace own_loop_test {

using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The evaluation in a user's own loop: every sample counts once, and the bits are the same on any number of ranks.

std::shared_ptr<Dataset> numbers(std::int64_t count) {
  return make_dataset(count, [](std::int64_t i) { return Sample{at::full({1}, std::sin(i + 1.0), at::kDouble)}; });
}

/// The bits of a sum that depends on the order of additions, and the number of samples.
std::string bits_of(const Job& job, std::int64_t samples) {
  torch::nn::Linear net(1, 1);
  const auto found = evaluate_sharded(job, *net, numbers(samples), {.batch_size = 4}, [](const Batch& batch) {
    return at::stack({batch.data.sum() / 3, (batch.data * batch.data).sum()});
  });
  return fmt::format("{} {} {}", found.sums.at(0), found.sums.at(1), found.samples);
}

class Worlds : public ::testing::TestWithParam<int> {};

TEST_P(Worlds, HaveTheBitsOfOneProcess) {
  // 1 and 3 samples make one batch, so only the first rank has one; 21 make six uneven batches.
  for (const std::int64_t samples : {1, 3, 5, 21, 100}) {
    const bool is_rank = std::getenv("EXPECTED_BITS") != nullptr;
    const std::string expected = is_rank ? "" : bits_of(alone(), samples);
    run_ranks(current_test(),
              [](Job& job) {
                const std::int64_t count = std::atoi(std::getenv("SAMPLES"));
                EXPECT_EQ(bits_of(job, count), std::getenv("EXPECTED_BITS"));
              },
              {.world = GetParam(), .env = {{"EXPECTED_BITS", expected}, {"SAMPLES", std::to_string(samples)}}});
  }
}
INSTANTIATE_TEST_SUITE_P(OneToFive, Worlds, ::testing::Values(1, 2, 3, 5));

RANKS_TEST(EvaluateSharded, EachSampleIsCountedOnceOnOneRank, 3) {
  torch::nn::Linear net(1, 1);
  std::int64_t own = 0;
  const auto found = evaluate_sharded(job, *net, numbers(10), {.batch_size = 2}, [&](const Batch& batch) {
    own += batch.size;
    return at::full({}, batch.size);
  });
  EXPECT_EQ(found.samples, 10);
  EXPECT_THAT(found.sums, ElementsAre(10));
  EXPECT_EQ(found.mean(), 1);
  EXPECT_EQ(own, job.rank() == 0 ? 4 : job.rank() == 1 ? 4 : 2);
}

struct Normed : torch::nn::Module {
  Normed() {
    register_module("norm", norm);
    register_module("frozen", frozen);
    register_module("drop", drop);
    frozen->eval();
  }
  at::Tensor forward(const at::Tensor& x) { return drop(norm(x)); }
  torch::nn::BatchNorm1d norm{1};
  torch::nn::BatchNorm1d frozen{1};
  torch::nn::Dropout drop{0.5};
};

RANKS_TEST(EvaluateSharded, TheWrappersBuffersAreThoseOfRankZero, 2) {
  DistributedDataParallel model{Normed(), job};
  model->norm->running_mean.fill_(job.rank());  // as after a step in which each rank read different samples
  const auto found = evaluate_sharded(job, model, numbers(8), {.batch_size = 4},
                                      [&](const Batch& batch) { return model(batch.data.to(at::kFloat)).sum(); });
  EXPECT_EQ(model->norm->running_mean.item<float>(), 0);
  DistributedDataParallel other{Normed(), job};
  const auto expected = evaluate_sharded(job, other, numbers(8), {.batch_size = 4},
                                         [&](const Batch& batch) { return other(batch.data.to(at::kFloat)).sum(); });
  EXPECT_EQ(found.sums, expected.sums);
}

TEST(EvaluateSharded, IsInEvaluationModeAndThenEachModuleHasItsOwnAgain) {
  Normed net;
  net.train();
  net.frozen->eval();
  const auto found = evaluate_sharded(alone(), net, numbers(3), {}, [&](const Batch& batch) {
    EXPECT_FALSE(net.is_training());
    EXPECT_FALSE(net.norm->is_training());
    return net.forward(batch.data.to(at::kFloat)).requires_grad() ? at::ones({1}) : at::ones({1}) * 2;
  });
  EXPECT_EQ(found.mean(), 2) << "no gradients are kept";
  EXPECT_TRUE(net.is_training());
  EXPECT_TRUE(net.norm->is_training());
  EXPECT_FALSE(net.frozen->is_training()) << "it was frozen before";
}

TEST(EvaluateSharded, AnOrderOfItsOwnIsAnErrorThatNamesIt) {
  torch::nn::Linear net(1, 1);
  const auto with = [&](const DataLoaderOptions& options) {
    return test::fault_of<Error>([&] {
      (void)evaluate_sharded(alone(), *net, numbers(3), options, [](const Batch&) { return at::ones({1}); });
    });
  };
  EXPECT_THAT(with({.shuffle = true}), HasSubstr("the options set shuffle"));
  EXPECT_THAT(with({.drop_last = true}), HasSubstr("the options set drop_last"));
  EXPECT_THAT(with({.shard = {0, 2}}), HasSubstr("the options set a shard"));
  EXPECT_THAT(with({.batch_size = 0}), HasSubstr("batch_size is 0"));
}

TEST(EvaluateSharded, AnEmptySetAndOtherNumbersOfCountsAreErrors) {
  torch::nn::Linear net(1, 1);
  const auto one = [](const Batch&) { return at::ones({1}); };
  EXPECT_THROW((void)evaluate_sharded(alone(), *net, numbers(0), {}, one), DataError);
  int batches = 0;
  const auto more_each_time = [&](const Batch&) { return at::ones({++batches}); };
  EXPECT_THAT(test::fault_of<Error>([&] { (void)evaluate_sharded(alone(), *net, numbers(3), {}, more_each_time); }),
              HasSubstr("numbers for one batch and"));
  const auto none = [](const Batch&) { return at::Tensor(); };
  EXPECT_THAT(test::fault_of<Error>([&] { (void)evaluate_sharded(alone(), *net, numbers(3), {}, none); }),
              HasSubstr("did not return a tensor"));
  const auto found = evaluate_sharded(alone(), *net, numbers(3), {}, one);
  EXPECT_THAT(test::fault_of<Error>([&] { (void)found.mean(1); }), HasSubstr("number 1 is out of range"));
}

TEST(EvaluateSharded, ASampleThatIsLeftOutCountsNowhere) {
  torch::nn::Linear net(1, 1);
  const auto set = make_dataset(10, [](std::int64_t i) {
    if (i == 4 || i == 5 || i == 6) throw DataError("torn");
    return Sample{at::full({1}, static_cast<double>(i))};
  });
  const auto found = evaluate_sharded(alone(), *net, set, {.batch_size = 2, .bad_samples = BadSamples::kSkip},
                                      [](const Batch& batch) { return batch.data.sum(); });
  EXPECT_EQ(found.samples, 7);
  EXPECT_THAT(found.sums, ElementsAre(0 + 1 + 2 + 3 + 7 + 8 + 9));
}

// A forgotten wrapper is reported at the end of the first epoch, or at the first save.

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

/// The output of the ranks while they train for an epoch.
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

// accumulate_steps: several batches give the gradients of one batch with all their samples, up to float32 rounding.

/// A network without batch norm, whose statistics depend on the batch, and without dropout.
class PlainNet final : public torch::nn::Module {
 public:
  PlainNet() {
    register_module("conv", conv);
    register_module("line", line);
  }
  at::Tensor forward(const at::Tensor& x) { return line(conv(x).relu().flatten(1)); }

 private:
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(3, 8, 3)};
  torch::nn::Linear line{8 * 36, 4};
};

class PlainTask final : public Task {
 public:
  std::shared_ptr<Dataset> make_dataset(const std::string&) override {
    return lockstep::make_dataset(64, [](std::int64_t i) {
      auto generator = make_generator(static_cast<std::uint64_t>(i));
      return Sample{at::rand({3, 8, 8}, generator), at::rand({4}, generator)};
    });
  }
  std::shared_ptr<torch::nn::Module> make_model() override { return std::make_shared<PlainNet>(); }
  at::Tensor forward(torch::nn::Module& model, const Batch& batch) override {
    return dynamic_cast<PlainNet&>(model).forward(batch.data);
  }
  at::Tensor loss(const at::Tensor& output, const Batch& batch) override { return at::mse_loss(output, batch.target); }
  at::Tensor count(const at::Tensor&, const Batch&) override { return at::zeros({1}, at::kDouble); }
  [[nodiscard]] std::vector<Metric> metrics(const at::Tensor&) const override { return {}; }
  [[nodiscard]] std::string model_name() const override { return "plain"; }
};

/// The gradients and the loss of the first step, with eight samples for each of two replicas.
std::vector<at::Tensor> first_step(const Job& job, std::int64_t accumulated) {
  PlainTask task;
  TrainConfig config;
  config.replicas = 2;
  config.threads = 1;
  config.workers = 0;
  config.batch_size = 8 / accumulated;
  config.accumulate_steps = accumulated;
  train::StepRunner steps(job, task, config);
  steps.data().open(task.make_dataset(""));
  steps.build(steps.make_net());
  steps.data().start_epoch(0, 0);
  std::vector<at::Tensor> found;
  for (const at::Tensor& loss : steps.compute_gradients(accumulated)) found.push_back(loss.clone());
  for (const auto& item : named_parameters_of(steps.model())) found.push_back(item.second.grad().clone());
  return found;
}

class AccumulateWorlds : public ::testing::TestWithParam<int> {};

TEST_P(AccumulateWorlds, SeveralBatchesHaveTheGradientsOfOneBatchOfTheirSamples) {
  run_ranks(current_test(),
            [](Job& job) {
              const std::vector<at::Tensor> whole = first_step(job, 1);
              for (const std::int64_t accumulated : {2, 4}) {
                const std::vector<at::Tensor> parts = first_step(job, accumulated);
                ASSERT_EQ(parts.size(), whole.size());
                for (std::size_t i = 0; i < whole.size(); ++i) {
                  const double size = whole[i].abs().max().item<double>();
                  ASSERT_GT(size, 0);
                  EXPECT_LE((parts[i] - whole[i]).abs().max().item<double>(), 1e-6 * size)
                      << accumulated << " batches, tensor " << i;
                }
              }
            },
            {.world = GetParam()});
}
INSTANTIATE_TEST_SUITE_P(OneAndTwo, AccumulateWorlds, ::testing::Values(1, 2));

}  // namespace own_loop_test
}  // namespace lockstep

namespace lockstep::train {
namespace own_loop_test {

RANKS_TEST(ShareState, EveryRankGetsEveryBitOfRankZeros, 3) {
  StateDict state;
  if (job.is_main()) {
    state = {{"weight", at::arange(6, at::kFloat).view({2, 3})},
             {"half", at::full({4}, 0.3, at::kBFloat16)},
             {"nothing", at::full({0}, 1.0)},
             {"step", std::int64_t{1} << 60},
             {"infinite", -std::numeric_limits<double>::infinity()},
             {"tenth", 0.1},
             {"on", true},
             {"name", std::string("a \"b\"\n\xC3\xA9")}};
  } else {
    state["other"] = std::int64_t{5};
  }
  const StateDict shared = share_state(state, job.group());
  ASSERT_EQ(shared.size(), 8U);
  const auto& weight = std::get<at::Tensor>(shared.at("weight"));
  EXPECT_TRUE(comm::same_bits(weight, at::arange(6, at::kFloat).view({2, 3})));
  EXPECT_EQ(std::get<at::Tensor>(shared.at("half")).scalar_type(), at::kBFloat16);
  EXPECT_EQ(std::get<at::Tensor>(shared.at("nothing")).numel(), 0);
  EXPECT_EQ(std::get<std::int64_t>(shared.at("step")), std::int64_t{1} << 60);
  EXPECT_EQ(std::get<double>(shared.at("infinite")), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(std::get<double>(shared.at("tenth")), 0.1);
  EXPECT_TRUE(std::get<bool>(shared.at("on")));
  EXPECT_EQ(std::get<std::string>(shared.at("name")), "a \"b\"\n\xC3\xA9");
}

RANKS_TEST(ShareState, NothingIsSharedAsNothing, 2) { EXPECT_TRUE(share_state({}, job.group()).empty()); }

}  // namespace own_loop_test
}  // namespace lockstep::train
