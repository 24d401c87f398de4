// SPDX-License-Identifier: Apache-2.0
// Runs with a scaled loss, forced on in float32 on CPUs: what is skipped, on whom, and what a checkpoint keeps of it.
#include "train/step/loss_scale.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/parallel/zero.h"
#include "support/alone.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"

namespace lockstep {
namespace loss_scale_test {

using ::lockstep::test::digest_of;
using ::lockstep::test::noisy_config;
using ::lockstep::test::NoisyTask;
using ::lockstep::test::TempDir;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr double kInf = std::numeric_limits<double>::infinity();

/// What is not finite in the first step of each epoch (its second batch), on one replica.
enum class Poison { kNothing, kOneGradient, kLoss, kAllLosses };

/// A NoisyTask with a replica that goes wrong.
class PoisonedTask final : public Task {
 public:
  explicit PoisonedTask(Poison poison) : poison_(poison) {}

  std::shared_ptr<torch::nn::Module> make_model() override {
    auto net = noisy_.make_model();
    net->named_parameters()["last.bias"].register_hook(
        [this](const at::Tensor& grad) { return bad_now(Poison::kOneGradient) ? grad.mul(kInf) : grad; });
    return net;
  }
  at::Tensor loss(const at::Tensor& output, const Batch& batch) override {
    batch_[this_replica().index()] = batch.step;
    const at::Tensor loss = noisy_.loss(output, batch);
    return bad_now(Poison::kLoss) || poison_ == Poison::kAllLosses ? loss.mul(kInf) : loss;
  }

  std::shared_ptr<Dataset> make_dataset(const std::string& folder) override { return noisy_.make_dataset(folder); }
  at::Tensor forward(torch::nn::Module& model, const Batch& batch) override { return noisy_.forward(model, batch); }
  at::Tensor count(const at::Tensor& output, const Batch& batch) override { return noisy_.count(output, batch); }
  [[nodiscard]] std::vector<Metric> metrics(const at::Tensor& counts) const override { return noisy_.metrics(counts); }
  [[nodiscard]] std::string model_name() const override { return noisy_.model_name(); }

 private:
  [[nodiscard]] bool bad_now(Poison what) const {
    return poison_ == what && this_replica().index() == 1 && batch_[1] == 1;
  }

  NoisyTask noisy_;
  Poison poison_;
  std::array<std::int64_t, 8> batch_{};  ///< by replica: the number in the epoch of the batch under way
};

struct PoisonedRun {
  Poison poison = Poison::kNothing;
  TrainConfig config = noisy_config();
};

/// Two good steps raise the scale, so that it moves both ways.
PoisonedRun scaled_run(Poison poison, std::int64_t steps = 10) {
  PoisonedRun run{.poison = poison};
  run.config.max_steps = steps;
  run.config.schedule.type = "none";
  run.config.grad_scaler = {.enabled = "true", .growth_interval = 2};
  return run;
}

TrainResult train(const Job& job, const std::filesystem::path& run_dir, PoisonedRun run) {
  PoisonedTask task(run.poison);
  return Trainer(job, task, run.config, {.recipe = "noisy", .run_dir = run_dir, .resume = "auto"}).fit();
}

StateDict state_of(const std::filesystem::path& run, const std::string& name) {
  return load_checkpoint(run.string()).state(name);
}

std::vector<Json> log_of(const std::filesystem::path& run, const std::string& event) {
  std::istringstream lines(FileSystem::system().read(run / "log.jsonl"));
  std::vector<Json> found;
  for (std::string line; std::getline(lines, line);) {
    if (Json json = Json::parse(line); json.at("event") == event) found.push_back(std::move(json));
  }
  return found;
}

std::string variable(const char* name) { return std::getenv(name) == nullptr ? "" : std::getenv(name); }

/// The run of PoisonedTask on `world` processes; `zero`: with sharded gradients.
void run_on(const std::filesystem::path& folder, int world, bool zero) {
  run_ranks(
      current_test(),
      [](Job& job) {
        PoisonedRun run = scaled_run(Poison::kOneGradient);
        run.config.optimizer.zero = variable("LOCKSTEP_TEST_ZERO") == "1";
        EXPECT_EQ(train(job, variable("LOCKSTEP_TEST_RUN"), run).skipped_steps, 4);
      },
      {.world = world, .env = {{"LOCKSTEP_TEST_RUN", folder.string()}, {"LOCKSTEP_TEST_ZERO", zero ? "1" : "0"}}});
}

TEST(LossScale, GivesTheWeightsOfARunWithoutItWhereNothingOverflows) {
  const TempDir folder;
  PoisonedRun plain = scaled_run(Poison::kNothing);
  plain.config.grad_scaler.enabled = "false";
  train(alone(), folder / "plain", plain);
  EXPECT_EQ(train(alone(), folder / "scaled", scaled_run(Poison::kNothing)).skipped_steps, 0);
  // The scale is a power of two: multiplying with it and back rounds nothing.
  for (const auto& [name, value] : state_of(folder / "plain", "model")) {
    EXPECT_TRUE(std::get<at::Tensor>(value).equal(std::get<at::Tensor>(state_of(folder / "scaled", "model").at(name))))
        << name;
  }
}

TEST(LossScale, AnInfinityOfOneReplicaLeavesTheStepOutAndHalvesTheScaleOnEveryProcess) {
  const TempDir folder;
  EXPECT_EQ(train(alone(), folder / "alone", scaled_run(Poison::kOneGradient)).skipped_steps, 4);
  run_on(folder / "two", 2, false);
  run_on(folder / "four", 4, false);
  const StateDict scaler = state_of(folder / "two", "scaler");
  EXPECT_EQ(std::get<double>(scaler.at("scale")), 32768);
  EXPECT_EQ(std::get<std::int64_t>(state_of(folder / "two", "optimizer").at("step")), 6);
  // A process with another scale would have given other gradients.
  EXPECT_EQ(digest_of(folder / "two"), digest_of(folder / "alone"));
  EXPECT_EQ(digest_of(folder / "four"), digest_of(folder / "alone"));
}

TEST(LossScale, AgreesWhereOnlyOneProcessHasTheGradientThatIsNotFinite) {
  const TempDir folder;
  train(alone(), folder / "alone", scaled_run(Poison::kOneGradient));
  run_on(folder / "two", 2, true);
  run_on(folder / "three", 3, true);
  EXPECT_EQ(digest_of(folder / "two"), digest_of(folder / "alone"));
  EXPECT_EQ(digest_of(folder / "three"), digest_of(folder / "alone"));
}

RANKS_TEST(LossScale, OfShardedGradientsEachProcessHasItsPart, 2) {
  DistributedDataParallel model{torch::nn::Linear(10, 10), job};
  ZeroRedundancyOptimizer optimizer{model, job, AdamWOptions{}, ZeroOptions{.shard_gradients = true}};
  model(at::ones({4, 10})).sum().backward();
  const auto elements = [](const std::vector<at::Tensor>& tensors) {
    std::int64_t count = 0;
    for (const at::Tensor& tensor : tensors) count += tensor.numel();
    return count;
  };
  const std::vector<at::Tensor> own = train::own_gradients(optimizer);
  EXPECT_LT(elements(own), 110);
  const at::Tensor of_all = at::full({1}, elements(own), at::kLong);
  job.group().all_reduce(of_all).wait();
  EXPECT_EQ(of_all.item<std::int64_t>(), 110);
  for (const at::Tensor& part : own) part.fill_(3);
  std::int64_t written = 0;
  for (const auto& item : optimizer.parameters()) written += item.second.grad().eq(3).sum().item<std::int64_t>();
  EXPECT_EQ(written, elements(own)) << "the parts are views of the gradients";
}

TEST(LossScale, ARunThatIsResumedKeepsScaleTrackerAndCounts) {
  const TempDir folder;
  train(alone(), folder / "whole", scaled_run(Poison::kOneGradient));
  for (const auto& [steps, skipped] : {std::pair{2, 1}, {5, 2}, {10, 4}}) {
    EXPECT_EQ(train(alone(), folder / "parts", scaled_run(Poison::kOneGradient, steps)).skipped_steps, skipped);
  }
  EXPECT_EQ(digest_of(folder / "parts"), digest_of(folder / "whole"));
  const auto tracker = [&](const std::string& step) {
    return std::get<std::int64_t>(state_of(folder / "parts/checkpoints" / step, "scaler").at("_growth_tracker"));
  };
  EXPECT_EQ(tracker("step-00000005"), 1);
  EXPECT_EQ(tracker("step-00000006"), 0);
}

TEST(LossScale, TheLogHasTheScaleOfEachStepAndCountsWhatWasLeftOut) {
  const TempDir folder;
  train(alone(), folder / "run", scaled_run(Poison::kOneGradient, 6));
  std::vector<double> scales;
  std::vector<std::int64_t> skipped;
  for (const Json& line : log_of(folder / "run", "step")) {
    scales.push_back(line.at("loss_scale"));
    skipped.push_back(line.at("skipped"));
  }
  EXPECT_THAT(scales, ElementsAre(65536, 32768, 32768, 65536, 32768, 32768));
  EXPECT_THAT(skipped, ElementsAre(1, 1, 1, 2, 2, 2));
  for (const Json& line : log_of(folder / "run", "epoch")) EXPECT_EQ(line.at("skipped"), 1);
  const Json summary = Json::parse(FileSystem::system().read(folder / "run/summary.json"));
  EXPECT_EQ(summary.at("skipped_steps"), 2);
}

TEST(LossScale, WithoutItNeitherLogNorCheckpointSpeaksOfIt) {
  const TempDir folder;
  PoisonedRun run = scaled_run(Poison::kNothing, 3);
  run.config.grad_scaler.enabled = "auto";  // amp is none
  EXPECT_EQ(train(alone(), folder / "run", run).skipped_steps, std::nullopt);
  EXPECT_FALSE(log_of(folder / "run", "step").front().contains("loss_scale"));
  EXPECT_FALSE(log_of(folder / "run", "epoch").front().contains("skipped"));
  EXPECT_EQ(load_checkpoint((folder / "run").string()).names(),
            (std::vector<std::string>{"model", "optimizer", "run"}));
}

TEST(LossScale, ALossThatIsNotFiniteIsNoErrorWhereItsStepIsLeftOut) {
  const TempDir folder;
  EXPECT_EQ(train(alone(), folder / "run", scaled_run(Poison::kLoss, 3)).skipped_steps, 1);
  const std::vector<Json> steps = log_of(folder / "run", "step");
  EXPECT_TRUE(steps[0].at("loss").is_null());
  const double mean = (steps[1].at("loss").get<double>() + steps[2].at("loss").get<double>()) / 2;
  EXPECT_DOUBLE_EQ(log_of(folder / "run", "epoch").front().at("loss").get<double>(), mean);
  PoisonedRun plain = scaled_run(Poison::kLoss, 3);
  plain.config.grad_scaler.enabled = "false";
  EXPECT_THROW(train(alone(), folder / "plain", plain), DataError);
}

TEST(LossScale, ARunWhoseGradientsAreNeverFiniteEndsWithADataError) {
  const TempDir folder;
  PoisonedRun run = scaled_run(Poison::kAllLosses, 100);
  run.config.checkpoint.every_steps = 0;
  try {
    train(alone(), folder / "run", run);
    FAIL() << "no error";
  } catch (const DataError& error) {
    // 65536 halved 41 times is below 2^-24.
    EXPECT_THAT(error.message(), HasSubstr("at step 41"));
    EXPECT_THAT(error.hint(), HasSubstr("optimizer.lr"));
  }
}

TEST(LossScale, AFactorOutOfRangeIsAUsageError) {
  const TempDir folder;
  PoisonedRun run = scaled_run(Poison::kNothing);
  run.config.grad_scaler.growth_factor = 1;
  EXPECT_THROW(train(alone(), folder / "run", run), UsageError);
}

}  // namespace loss_scale_test
}  // namespace lockstep
