// SPDX-License-Identifier: Apache-2.0
// Scaled losses, and non-finite gradients.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/parallel/zero.h"
#include "lockstep/train/function_task.h"
#include "lockstep/train/trainer.h"
#include "support/alone.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"
#include "train/step/loss_scale.h"
#include "train/step/not_finite.h"

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

// Runs with a scaled loss, which is forced on in float32 on the CPU: all ranks skip the same steps, and a checkpoint
// records how many.

constexpr double kInf = std::numeric_limits<double>::infinity();

/// The values that are non-finite in the first step of each epoch (in its second batch), on one replica.
enum class Poison { kNothing, kOneGradient, kLoss, kAllLosses };

/// A NoisyTask in which one replica has non-finite values.
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
  std::array<std::int64_t, 8> batch_{};  ///< number of the current batch in the epoch, by replica
};

struct PoisonedRun {
  Poison poison = Poison::kNothing;
  TrainConfig config = noisy_config();
};

/// A run in which two good steps raise the scale, so that it changes in both directions.
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
  // The scale is a power of two, so multiplication and division by it do not round.
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
  // A process with a different scale would have computed different gradients.
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

// Messages about non-finite or unusual gradients and losses.

namespace lockstep::train {
namespace not_finite_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

at::Tensor with_gradient(const std::vector<float>& gradient) {
  at::Tensor parameter = at::ones({static_cast<std::int64_t>(gradient.size())}).requires_grad_();
  parameter.mutable_grad() = at::tensor(gradient);
  return parameter;
}

TEST(NonFiniteGradients, AreNamedWithTheNumberOfTheirElements) {
  EXPECT_EQ(non_finite_gradients({{"a", with_gradient({1, 2})}}), "");
  EXPECT_EQ(non_finite_gradients({{"a", with_gradient({1, 2})}, {"b", with_gradient({kNan, 2, kNan})}}),
            "b (2 of 3 elements)");
  EXPECT_EQ(non_finite_gradients({{"a", with_gradient({kNan})}, {"b", with_gradient({kNan})}}),
            "a (1 of 1 elements) and 1 more of 2 parameters");
}

TEST(BadLosses, AreNamedByRankAndReplica) {
  EXPECT_EQ(ranks_with_bad_loss({{}, {}}), "");
  EXPECT_EQ(ranks_with_bad_loss({{}, {2, 3}}), "on rank 1 (replicas 2, 3)");
  EXPECT_EQ(ranks_with_bad_loss({{0}, {}, {2}}), "on rank 0 (replica 0), rank 2 (replica 2)");
  EXPECT_EQ(ranks_with_bad_loss({{0}, {1}}), "on every rank");
}

TEST(NormWatch, TellsOfANormFarAboveTheMedianOnly) {
  NormWatch watch;
  EXPECT_EQ(watch.add(1000), std::nullopt) << "there is nothing to compare it with";
  for (int i = 0; i < 40; ++i) EXPECT_EQ(watch.add(1 + 0.1 * (i % 10)), std::nullopt);
  EXPECT_EQ(watch.add(10), std::nullopt);
  const auto ratio = watch.add(150);
  ASSERT_TRUE(ratio);
  EXPECT_NEAR(*ratio, 100, 10);
}

TEST(LargestGradient, IsNamedWithItsShareOfTheSquares) {
  EXPECT_EQ(largest_gradient({{"a", with_gradient({1})}, {"b", with_gradient({3})}}), "b accounts for 90 % of it");
}

struct LineNet : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return line(x); }
  torch::nn::Linear line = register_module("line", torch::nn::Linear(1, 1));
};

/// A task whose loss is 0 but whose gradient is infinite: the loss is the square root of 0.
TaskOptions with_bad_gradient() {
  return {
      .model = [] { return LineNet(); },
      .dataset =
          [](const std::string&) { return make_dataset(8, [](std::int64_t) { return Sample{at::full({1}, 1.0)}; }); },
      .loss = [](const at::Tensor& output, const Batch& /*batch*/) { return (output * 0).sqrt().mean(); }};
}

std::string error_of(const Job& job, const TaskOptions& options, TrainConfig config) {
  const test::TempDir folder;
  FunctionTask task(options);
  config.max_steps = 3;
  config.data.train = "made up";
  try {
    (void)Trainer(job, task, config, {.recipe = "line", .run_dir = folder / "run"}).fit();
    return "no error";
  } catch (const DataError& error) {
    return error.message();
  }
}

TEST(Training, EndsAtTheFirstGradientThatIsNotFinite) {
  TrainConfig config;
  config.check_gradients = true;
  EXPECT_THAT(
      error_of(testing::alone(), with_bad_gradient(), config),
      HasSubstr("step 1: the gradient is not finite: line.weight (1 of 1 elements) and 1 more of 2 parameters"));
  config.check_gradients = false;
  config.clip_norm = 1;
  EXPECT_THAT(error_of(testing::alone(), with_bad_gradient(), config), HasSubstr("step 1: the gradient is not finite"));
}

TEST(Training, EndsAtAnInfiniteGradientThatClipValueWouldMakeANumber) {
  TaskOptions options = with_bad_gradient();
  options.loss = [](const at::Tensor& output, const Batch& /*batch*/) {
    return (output - output.detach()).sqrt().mean();  // the root of 0
  };
  TrainConfig config;
  config.clip_value = 1;
  EXPECT_EQ(error_of(testing::alone(), options, config), "no error");
  config.check_gradients = true;
  EXPECT_THAT(error_of(testing::alone(), options, config),
              HasSubstr("step 1: the gradient is not finite: line.weight"));
  config.optimizer.zero = true;
  EXPECT_THAT(error_of(testing::alone(), options, config), AllOf(HasSubstr("step 1: "), HasSubstr("is not finite")));
}

RANKS_TEST(Training, NamesTheRankWhoseLossIsNotFinite, 2) {
  TaskOptions options = with_bad_gradient();
  options.loss = [rank = job.rank()](const at::Tensor& output, const Batch& /*batch*/) {
    return rank == 1 ? output.mean() * kNan : output.mean();
  };
  EXPECT_THAT(error_of(job, options, {}),
              AllOf(HasSubstr("the loss of step 1 is nan"), HasSubstr("on rank 1 (replica 1); its batch: sample ")));
  TrainConfig clipped;
  clipped.clip_norm = 1;
  EXPECT_THAT(error_of(job, options, clipped), HasSubstr("the loss of step 1 is nan on rank 1 (replica 1)"));
}

}  // namespace not_finite_test
}  // namespace lockstep::train

// A non-finite gradient with a finite loss: checkpoints do not store the result, and the run can be resumed.
namespace lockstep {
namespace finite_saves_test {

namespace fs = std::filesystem;
using ::lockstep::test::TempDir;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();

struct LineNet : torch::nn::Module {
  LineNet() { mask = register_buffer("mask", at::full({3}, -kInf)); }
  at::Tensor forward(const at::Tensor& x) { return line(x); }
  torch::nn::Linear line = register_module("line", torch::nn::Linear(1, 1));
  at::Tensor mask;  // like an attention mask
};

/// A task whose loss is finite but whose gradient is NaN at step 6: the gradient of a square root at 0, which is
/// infinite, is multiplied by 0.
TaskOptions root_task(bool spoils) {
  return {.model = [] { return LineNet(); },
          .dataset =
              [](const std::string&) {
                return make_dataset(
                    64, [](std::int64_t i) { return Sample{at::full({1}, 0.01 * static_cast<double>(i))}; });
              },
          .loss =
              [spoils](const at::Tensor& output, const Batch& batch) {
                const at::Tensor loss = output.square().mean();
                const bool now = spoils && batch.epoch == 0 && batch.step == 5;
                return now ? loss + (output * 0).sqrt().mean() : loss;
              }};
}

TrainConfig config_of(std::int64_t steps) {
  TrainConfig config;
  config.max_steps = steps;
  config.epochs = 3;
  config.replicas = 2;
  config.batch_size = 1;
  config.schedule.type = "none";
  config.data.train = "made up";
  config.checkpoint = {.every_steps = 1, .keep_last = 3};
  return config;
}

std::string error_of(const Job& job, const fs::path& run_dir, TrainConfig config, bool spoils = true) {
  FunctionTask task(root_task(spoils));
  try {
    (void)Trainer(job, task, config, {.recipe = "line", .run_dir = run_dir, .resume = "auto"}).fit();
    return "";
  } catch (const DataError& error) {
    return error.what();
  }
}

std::string newest_of(const fs::path& run) {
  return find_newest(FileSystem::system(), run / "checkpoints").value_or("none").filename().string();
}

TEST(FiniteSaves, TheRunEndsAsWithALossThatIsNotFiniteAndNamesTensorAndLastGoodCheckpoint) {
  for (const char* optimizer : {"adamw", "sgd"}) {
    const TempDir folder;
    TrainConfig config = config_of(12);
    config.optimizer.type = optimizer;
    config.checkpoint.async = false;
    const std::string error = error_of(alone(), folder / "run", config);
    EXPECT_THAT(error, AllOf(HasSubstr("the checkpoint of step 6 is not saved: model/line.bias is not finite (1 of 1 "),
                             HasSubstr("the last good one is "), HasSubstr("step-00000005, and ")));
    EXPECT_EQ(newest_of(folder / "run"), "step-00000005");
    EXPECT_THAT(error_of(alone(), folder / "run", config), HasSubstr("step 6 is not saved")) << "it comes again";
    EXPECT_EQ(error_of(alone(), folder / "run", config, /*spoils=*/false), "");
    EXPECT_EQ(newest_of(folder / "run"), "step-00000012");
  }
}

TEST(FiniteSaves, InTheBackgroundAndAtTheEndOfARunItIsTheSame) {
  for (const std::int64_t steps : {6, 12}) {
    const TempDir folder;
    EXPECT_THAT(error_of(alone(), folder / "run", config_of(steps)),
                AnyOf(HasSubstr("the checkpoint of step 6 is not saved: model/line.bias is not finite"),
                      HasSubstr("the loss of step 7 is ")));
    EXPECT_EQ(newest_of(folder / "run"), "step-00000005");
  }
}

std::string variable(const char* name) { return std::getenv(name) == nullptr ? "" : std::getenv(name); }

class ByAllRanks : public ::testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(ByAllRanks, EachEndsWithTheErrorAndNoCheckpointIsSpoilt) {
  const TempDir folder;
  const auto [zero, background] = GetParam();
  run_ranks(current_test(),
            [](Job& job) {
              TrainConfig config = config_of(12);
              config.optimizer.zero = variable("LOCKSTEP_TEST_ZERO") == "1";
              config.checkpoint.async = variable("LOCKSTEP_TEST_ASYNC") == "1";
              config.checkpoint.sharded = true;
              EXPECT_THAT(error_of(job, variable("LOCKSTEP_TEST_RUN"), config),
                          AnyOf(AllOf(HasSubstr("the checkpoint of step 6 is not saved: "), HasSubstr("is not finite")),
                                HasSubstr("the loss of step 7 is ")));
            },
            {.world = 2,
             .env = {{"LOCKSTEP_TEST_RUN", (folder / "run").string()},
                     {"LOCKSTEP_TEST_ZERO", zero ? "1" : "0"},
                     {"LOCKSTEP_TEST_ASYNC", background ? "1" : "0"}}});
  EXPECT_EQ(newest_of(folder / "run"), "step-00000005");
  EXPECT_EQ(not_finite_in(FileSystem::system(), folder / "run/checkpoints/step-00000005"), "");
}

INSTANTIATE_TEST_SUITE_P(ZeroAndNotInTheBackgroundAndNot, ByAllRanks,
                         ::testing::Combine(::testing::Bool(), ::testing::Bool()));

/// Creates a run whose checkpoint has non-finite values, as an older version or a curious user might.
void run_into_spoilt_checkpoint(const fs::path& run) {
  TrainConfig config = config_of(6);
  config.checkpoint.require_finite = false;
  ASSERT_EQ(error_of(alone(), run, config), "");
  ASSERT_EQ(newest_of(run), "step-00000006");
}

TEST(FiniteSaves, ARunWhoseNewestCheckpointIsSpoiltGoesOnFromTheOneBefore) {
  const TempDir folder;
  run_into_spoilt_checkpoint(folder / "run");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(error_of(alone(), folder / "run", config_of(12), /*spoils=*/false), "");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("step-00000006 is skipped: model/line.bias is not finite (1 of 1 elements)"));
  EXPECT_EQ(newest_of(folder / "run"), "step-00000012");
}

TEST(FiniteSaves, ASpoiltCheckpointThatIsNamedIsRefusedWithTheOneBefore) {
  const TempDir folder;
  run_into_spoilt_checkpoint(folder / "run");
  const fs::path spoilt = folder / "run/checkpoints/step-00000006";
  FunctionTask task(root_task(false));
  TrainConfig config = config_of(12);
  try {
    (void)Trainer(alone(), task, config, {.recipe = "line", .resume = spoilt.string()}).fit();
    ADD_FAILURE() << "nothing was refused";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("step-00000006: model/line.bias is not finite"),
                                    HasSubstr("the newest good one before it: "), HasSubstr("step-00000005")));
  }
  const fs::path good = folder / "run/checkpoints/step-00000005";
  EXPECT_EQ(Trainer(alone(), task, config, {.recipe = "line", .resume = good.string()}).fit().steps, 12);
}

struct NormNet : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return line(norm(x)); }
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(1));
  torch::nn::Linear line = register_module("line", torch::nn::Linear(1, 1));
};

TEST(FiniteSaves, AnOverflowWhoseStepIsLeftOutDoesNotSpoilRunningStatistics) {
  const TempDir folder;
  TaskOptions options = root_task(/*spoils=*/false);
  options.model = [] { return NormNet(); };
  options.forward = [](NormNet& net, const Batch& batch) {
    return net.forward(batch.step == 1 ? (batch.data + 1) * kInf : batch.data);
  };
  FunctionTask task(options);
  TrainConfig config = config_of(5);
  config.batch_size = 4;
  config.grad_scaler.enabled = "true";
  const TrainResult result = Trainer(alone(), task, config, {.recipe = "norm", .run_dir = folder / "run"}).fit();
  EXPECT_EQ(result.skipped_steps, 1);
  const StateDict model = load_checkpoint((folder / "run").string()).state("model");
  EXPECT_TRUE(std::get<at::Tensor>(model.at("norm.running_mean")).isfinite().all().item<bool>());
  EXPECT_NE(std::get<at::Tensor>(model.at("norm.running_mean")).item<float>(), 0);
}

}  // namespace finite_saves_test
}  // namespace lockstep
