// SPDX-License-Identifier: Apache-2.0
// The evaluation of a loop of one's own: every sample once, the same bits on any number of ranks.
#include "lockstep/train/evaluate_sharded.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "support/alone.h"
#include "support/fault_of.h"
#include "support/run_ranks.h"

namespace lockstep {
namespace evaluate_sharded_test {

using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<Dataset> numbers(std::int64_t count) {
  return make_dataset(count, [](std::int64_t i) { return Sample{at::full({1}, std::sin(i + 1.0), at::kDouble)}; });
}

/// The bits of a sum whose order of additions matters, and of the number of samples.
std::string bits_of(const Job& job, std::int64_t samples) {
  torch::nn::Linear net(1, 1);
  const auto found = evaluate_sharded(job, *net, numbers(samples), {.batch_size = 4}, [](const Batch& batch) {
    return at::stack({batch.data.sum() / 3, (batch.data * batch.data).sum()});
  });
  return fmt::format("{} {} {}", found.sums.at(0), found.sums.at(1), found.samples);
}

class Worlds : public ::testing::TestWithParam<int> {};

TEST_P(Worlds, HaveTheBitsOfOneProcess) {
  // 1 and 3 samples are one batch, so that all ranks but the first have none; 21 are six uneven batches.
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
  model->norm->running_mean.fill_(job.rank());  // as after a step, in which each rank saw other samples
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
  EXPECT_THAT(with({.shuffle = true}), HasSubstr("its options have shuffle"));
  EXPECT_THAT(with({.drop_last = true}), HasSubstr("its options have drop_last"));
  EXPECT_THAT(with({.shard = {0, 2}}), HasSubstr("its options have a shard"));
  EXPECT_THAT(with({.batch_size = 0}), HasSubstr("batch_size is 0"));
}

TEST(EvaluateSharded, AnEmptySetAndOtherNumbersOfCountsAreErrors) {
  torch::nn::Linear net(1, 1);
  const auto one = [](const Batch&) { return at::ones({1}); };
  EXPECT_THROW((void)evaluate_sharded(alone(), *net, numbers(0), {}, one), DataError);
  int batches = 0;
  const auto more_each_time = [&](const Batch&) { return at::ones({++batches}); };
  EXPECT_THAT(test::fault_of<Error>([&] { (void)evaluate_sharded(alone(), *net, numbers(3), {}, more_each_time); }),
              HasSubstr("numbers of one batch and"));
  const auto none = [](const Batch&) { return at::Tensor(); };
  EXPECT_THAT(test::fault_of<Error>([&] { (void)evaluate_sharded(alone(), *net, numbers(3), {}, none); }),
              HasSubstr("returned no tensor"));
  const auto found = evaluate_sharded(alone(), *net, numbers(3), {}, one);
  EXPECT_THAT(test::fault_of<Error>([&] { (void)found.mean(1); }), HasSubstr("no number 1"));
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

}  // namespace evaluate_sharded_test
}  // namespace lockstep
