// SPDX-License-Identifier: Apache-2.0
// Random numbers in evaluations: those of a network that draws in evaluation mode, and those of a collate function, are
// the same on any number of ranks, and after a stop.
#include <ATen/core/ivalue.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/tensor/random.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/evaluate_sharded.h"
#include "support/alone.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"

namespace lockstep {
namespace evaluation_test {

using test::TempDir;
using testing::alone;
using testing::current_test;
using testing::run_ranks;

class LineNet final : public torch::nn::Module {
 public:
  LineNet() { register_module("line", line); }
  at::Tensor forward(const at::Tensor& x) { return line(x); }

 private:
  torch::nn::Linear line{2, 1};
};

/// Drops elements in evaluation mode too, as MC dropout does.
class DrawingTask final : public Task {
 public:
  std::shared_ptr<Dataset> make_dataset(const std::string&) override {
    return lockstep::make_dataset(48, [](std::int64_t i) {
      const double x = 0.1 * static_cast<double>(i % 7);
      const double y = 0.1 * static_cast<double>(i % 5);
      return Sample{at::tensor({x, y}, at::kFloat), at::full({1}, x * y)};
    });
  }
  std::shared_ptr<torch::nn::Module> make_model() override { return std::make_shared<LineNet>(); }
  at::Tensor forward(torch::nn::Module& model, const Batch& batch) override {
    return dynamic_cast<LineNet&>(model).forward(at::dropout(batch.data, 0.3, /*train=*/true));
  }
  at::Tensor loss(const at::Tensor& output, const Batch& batch) override { return at::mse_loss(output, batch.target); }
  at::Tensor count(const at::Tensor& output, const Batch& batch) override {
    const double error = (output - batch.target).pow(2).sum().item<double>();
    return at::tensor({static_cast<double>(batch.size), error}, at::kDouble);
  }
  [[nodiscard]] std::vector<Metric> metrics(const at::Tensor& counts) const override {
    return {{"error", counts[1].item<double>() / counts[0].item<double>(), /*lower_is_better=*/true}};
  }
  [[nodiscard]] std::string model_name() const override { return "drawing"; }
};

/// Evaluates the same network on each rank. The generator is in a different state on each rank, as after a step.
std::string error_of(const Job& job, std::uint64_t seed = 0) {
  DrawingTask task;
  seed_all(3);
  const auto model = task.make_model();
  seed_all(100 + static_cast<std::uint64_t>(job.rank()));
  const auto found = evaluate(job, task, *model, task.make_dataset(""), {.batch_size = 3, .replicas = 4, .seed = seed});
  return fmt::format("{}", found.metrics.at(0).value);
}

/// Sums random numbers that a network draws, and random numbers that the collate function draws.
std::string sums_of(const Job& job, std::uint64_t seed = 0) {
  DrawingTask task;
  const auto model = task.make_model();
  seed_all(100 + static_cast<std::uint64_t>(job.rank()));
  DataLoaderOptions options{.batch_size = 5, .workers = 1, .seed = seed};
  options.collate = [](const std::vector<Sample>& samples, const BatchContext& context) {
    SampleRandom random = context.random();
    std::vector<at::Tensor> rows;
    for (const Sample& sample : samples) rows.push_back(sample.data + random.uniform(0, 1));
    return Batch{.data = at::stack(rows)};
  };
  const auto found = evaluate_sharded(job, *model, task.make_dataset(""), options, [](const Batch& batch) {
    return at::stack({at::rand({1}, at::kDouble).sum(), batch.data.to(at::kDouble).sum()});
  });
  return fmt::format("{} {}", found.sums.at(0), found.sums.at(1));
}

/// Two steps per epoch, with an evaluation after each epoch.
TrainResult train(const Job& job, const std::filesystem::path& run_dir, std::int64_t steps) {
  TrainConfig config = test::noisy_config();
  config.max_steps = steps;
  DrawingTask task;
  Trainer trainer(job, task, config, {.recipe = "drawing", .run_dir = run_dir, .resume = "auto"});
  return trainer.fit();
}

class EvaluationWorlds : public ::testing::TestWithParam<int> {};

TEST_P(EvaluationWorlds, DrawTheNumbersOfOneProcess) {
  const bool is_rank = std::getenv("EXPECTED_ERROR") != nullptr;
  const std::string error = is_rank ? "" : error_of(alone());
  const std::string sums = is_rank ? "" : sums_of(alone());
  run_ranks(current_test(),
            [](Job& job) {
              EXPECT_EQ(error_of(job), std::getenv("EXPECTED_ERROR"));
              EXPECT_EQ(sums_of(job), std::getenv("EXPECTED_SUMS"));
            },
            {.world = GetParam(), .env = {{"EXPECTED_ERROR", error}, {"EXPECTED_SUMS", sums}}});
}

/// A checkpoint holds the best evaluation, so its digest covers the metrics.
TEST_P(EvaluationWorlds, ChooseTheBestStepOfOneProcess) {
  const TempDir folder;
  const char* told = std::getenv("LOCKSTEP_TEST_SHARED");
  const std::string shared = told != nullptr ? told : (folder / "run").string();
  run_ranks(current_test(), [&](Job& job) { train(job, shared, 8); },
            {.world = GetParam(), .env = {{"LOCKSTEP_TEST_SHARED", shared}}});
  train(alone(), folder / "alone", 8);
  EXPECT_EQ(test::digest_of(shared), test::digest_of(folder / "alone"));
}
INSTANTIATE_TEST_SUITE_P(OneToFour, EvaluationWorlds, ::testing::Values(1, 2, 3, 4));

TEST(Evaluation, ThatIsRepeatedAfterTheRunsEndHasTheSameMetrics) {
  const TempDir folder;
  const TrainResult first = train(alone(), folder / "run", 4);
  const TrainResult again = train(alone(), folder / "run", 4);  // takes no step
  ASSERT_EQ(first.metrics.size(), 1U);
  ASSERT_EQ(again.metrics.size(), 1U);
  EXPECT_EQ(again.metrics[0].value, first.metrics[0].value);
}

TEST(Evaluation, DrawsOtherNumbersWithAnotherSeed) {
  EXPECT_NE(error_of(alone(), 1), error_of(alone(), 2));
  EXPECT_NE(sums_of(alone(), 1), sums_of(alone(), 2));
}

TEST(Evaluation, LeavesTheCallersRandomNumbersAsTheyWere) {
  DrawingTask task;
  const auto model = task.make_model();
  const auto set = task.make_dataset("");
  seed_all(5);
  const double expected = at::rand({1}, at::kDouble).item<double>();
  seed_all(5);
  (void)evaluate(alone(), task, *model, set, {.batch_size = 3});
  EXPECT_EQ(at::rand({1}, at::kDouble).item<double>(), expected);
  seed_all(5);
  (void)evaluate_sharded(alone(), *model, set, {.batch_size = 3}, [](const Batch&) { return at::rand({1}); });
  EXPECT_EQ(at::rand({1}, at::kDouble).item<double>(), expected);
}

}  // namespace evaluation_test
}  // namespace lockstep
