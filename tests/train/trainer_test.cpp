// SPDX-License-Identifier: Apache-2.0
// The Trainer on a one-layer problem, small enough to check its files and decisions in a second.
#include "lockstep/train/trainer.h"
#include "lockstep/train/step_timer.h"

#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "support/alone.h"
#include "support/fault_of.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace trainer_test {

using ::lockstep::testing::alone;

class LineNet final : public torch::nn::Module {
 public:
  LineNet() : line(register_module("line", torch::nn::Linear(1, 1))) {}
  torch::nn::Linear line;
};

// A task that learns y = 2 x + 1 from 32 points; `poison` makes the loss of every batch non-finite.
class LineTask : public Task {
 public:
  explicit LineTask(bool poison = false) : poison_(poison) {}
  std::shared_ptr<Dataset> make_dataset(const std::string&) override {
    return lockstep::make_dataset(32, [](std::int64_t i) {
      const double x = static_cast<double>(i) / 32;
      return Sample{at::full({1}, x), at::full({1}, 2 * x + 1)};
    });
  }
  std::shared_ptr<torch::nn::Module> make_model() override { return std::make_shared<LineNet>(); }
  at::Tensor forward(torch::nn::Module& model, const Batch& batch) override {
    return dynamic_cast<LineNet&>(model).line(batch.data);
  }
  at::Tensor loss(const at::Tensor& output, const Batch& batch) override {
    const at::Tensor loss = at::mse_loss(output, batch.target);
    return poison_ ? loss / 0.0 : loss;
  }
  at::Tensor count(const at::Tensor& output, const Batch& batch) override {
    const at::Tensor near = (output - batch.target).abs().lt(0.5).sum();
    return at::tensor({static_cast<double>(batch.size), static_cast<double>(near.item<std::int64_t>())}, at::kDouble);
  }
  [[nodiscard]] std::vector<Metric> metrics(const at::Tensor& counts) const override {
    return {{"near", counts[1].item<double>() / counts[0].item<double>()}};
  }
  [[nodiscard]] std::string model_name() const override { return "line"; }

 private:
  bool poison_;
};

TrainConfig line_config() {
  TrainConfig config;
  config.batch_size = 4;
  config.epochs = 3;
  config.optimizer.lr = 0.05;
  config.data.train = config.data.test = "made up";
  return config;
}

TrainResult train(const Job& job, TrainConfig config, const std::filesystem::path& run_dir) {
  LineTask task;
  Trainer trainer(job, task, config, {.recipe = "line", .run_dir = run_dir});
  return trainer.fit();
}

std::string read(const std::filesystem::path& path) { return FileSystem::system().read(path); }

double last_epoch_loss(const std::filesystem::path& run_dir) {
  const std::string log = read(run_dir / "log.jsonl");
  const std::size_t at = log.find("\"loss\": ", log.rfind("\"event\": \"epoch\""));
  return std::stod(log.substr(at + 8));
}

TEST(Trainer, WritesSettingsLogSummaryAndAVerifiedCheckpoint) {
  const test::TempDir folder;
  const TrainResult result = train(alone(), line_config(), folder / "run");
  EXPECT_EQ(result.steps, 24);
  EXPECT_EQ(read(folder / "run/config.yml").substr(0, 13), "recipe: line\n");
  const std::string summary = read(folder / "run/summary.json");
  for (const char* key :
       {"\"recipe\": \"line\"", "\"world_size\": 1", "\"replicas\": 1", "\"steps\": 24", "\"near\": "}) {
    EXPECT_NE(summary.find(key), std::string::npos) << key << " is missing in " << summary;
  }
  EXPECT_NE(read(folder / "run/log.jsonl").find("\"event\": \"epoch\""), std::string::npos);
  const Checkpoint checkpoint = load_checkpoint((folder / "run").string());
  EXPECT_EQ(checkpoint.step(), 24);
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string>{"model", "optimizer", "run"}));
}

TEST(Trainer, TheSameSeedGivesTheSameWeights) {
  const test::TempDir folder;
  std::vector<float> weights;
  for (const char* run : {"a", "b"}) {
    train(alone(), line_config(), folder / run);
    const StateDict state = load_checkpoint((folder / run).string()).state("model");
    weights.push_back(std::get<at::Tensor>(state.at("line.weight")).item<float>());
  }
  EXPECT_EQ(weights[0], weights[1]);
}

TEST(Trainer, AccumulatingGivesTheWeightsOfTheLargerBatch) {
  const test::TempDir folder;
  TrainConfig whole = line_config();
  whole.batch_size = 8;
  TrainConfig halves = line_config();
  halves.accumulate_steps = 2;
  train(alone(), whole, folder / "whole");
  train(alone(), halves, folder / "halves");
  const auto weight = [&](const char* run) {
    const StateDict state = load_checkpoint((folder / run).string()).state("model");
    return std::get<at::Tensor>(state.at("line.weight")).item<float>();
  };
  EXPECT_NEAR(weight("whole"), weight("halves"), 1e-5);
  // AdamW does not depend on the scale of the gradients; the loss, which has the same scale, would reveal a wrong one.
  EXPECT_NEAR(last_epoch_loss(folder / "whole"), last_epoch_loss(folder / "halves"), 1e-5);
}

TEST(Trainer, StopsAtMaxStepsAndAtTheTarget) {
  const test::TempDir folder;
  TrainConfig config = line_config();
  config.max_steps = 5;
  EXPECT_EQ(train(alone(), config, folder / "max").steps, 5);
  config = line_config();
  config.epochs = 50;
  config.stop_at = {.metric = "near", .value = 0.0};
  const TrainResult result = train(alone(), config, folder / "target");
  EXPECT_TRUE(result.reached_target);
  EXPECT_EQ(result.epochs, 1);
}

TEST(Trainer, ARunThatReachedItsTargetIsCompleteWhenItIsResumed) {
  const test::TempDir folder;
  TrainConfig config = line_config();
  config.epochs = 50;
  config.stop_at = {.metric = "near", .value = 0.0};
  const std::int64_t steps = train(alone(), config, folder / "run").steps;
  const auto resume = [&] {
    LineTask task;
    return Trainer(alone(), task, config, {.recipe = "line", .run_dir = folder / "run", .resume = "auto"}).fit();
  };
  EXPECT_EQ(resume().steps, steps);
  FileSystem::system().remove(folder / "run/summary.json");  // as if killed before the end of the run
  const TrainResult again = resume();
  EXPECT_EQ(again.steps, steps);
  EXPECT_TRUE(again.reached_target);
}

TEST(Trainer, ARunThatIsExtendedAndKilledBeforeItsEndWritesItsSummaryWhenItIsResumed) {
  const test::TempDir folder;
  TrainConfig config = line_config();
  config.schedule.type = "none";
  train(alone(), config, folder / "run");
  EXPECT_NE(read(folder / "run/summary.json").find("\"steps\": 24"), std::string::npos);
  config.epochs = 4;
  const auto extend = [&](std::vector<std::shared_ptr<RunSink>> sinks) {
    LineTask task;
    TrainConfig longer = config;
    return Trainer(alone(), task, longer,
                   {.recipe = "line", .run_dir = folder / "run", .resume = "auto", .sinks = std::move(sinks)})
        .fit();
  };
  const auto killed = run_callbacks({.on_save = [](const SaveResult& saved) {
    if (saved.step == 32) throw std::runtime_error("killed after the last checkpoint");
  }});
  EXPECT_ANY_THROW((void)extend({killed}));
  EXPECT_EQ(load_checkpoint((folder / "run").string()).step(), 32);
  EXPECT_EQ(extend({}).steps, 32);
  EXPECT_NE(read(folder / "run/summary.json").find("\"steps\": 32"), std::string::npos);
}

TEST(Trainer, SavesAfterEveryNthEpochWhereThatIsAsked) {
  const test::TempDir folder;
  TrainConfig config = line_config();
  config.epochs = 5;
  config.data.test = "";
  config.checkpoint = {.every_epochs = 2, .keep_last = 100};
  train(alone(), config, folder / "run");
  EXPECT_EQ(FileSystem::system().list(folder / "run/checkpoints"),
            (std::vector<std::string>{"step-00000016", "step-00000032", "step-00000040"}));
}

TEST(Trainer, ATargetThatTheEvaluationDoesNotHaveIsAnErrorBeforeTheFirstStep) {
  const test::TempDir folder;
  TrainConfig config = line_config();
  config.stop_at = {.metric = "naer", .value = 0.9};
  config.checkpoint.every_steps = 1;
  try {
    train(alone(), config, folder / "run");
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.message(),
              "stop_at.metric is 'naer', which is not a metric of the evaluation (did you mean 'near'?)");
    EXPECT_EQ(error.hint(), "use one of near");
  }
  EXPECT_FALSE(FileSystem::system().exists(folder / "run/checkpoints/step-00000001"));
}

TEST(Trainer, KeepsTheLastCheckpointsThatWereAskedFor) {
  const test::TempDir folder;
  TrainConfig config = line_config();
  config.checkpoint = {.every_steps = 5, .keep_last = 2};
  train(alone(), config, folder / "run");
  EXPECT_EQ(FileSystem::system().list(folder / "run/checkpoints"),
            (std::vector<std::string>{"best", "step-00000020", "step-00000024"}));
}

TEST(Trainer, ALossThatIsNotFiniteIsADataErrorThatNamesTheStep) {
  const test::TempDir folder;
  LineTask task(true);
  TrainConfig config = line_config();
  Trainer trainer(alone(), task, config, {.recipe = "line", .run_dir = folder / "run"});
  try {
    trainer.fit();
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_NE(error.message().find("the loss of step 1 is inf"), std::string::npos) << error.message();
  }
}

/// A LineTask whose samples 5 and 20 are truncated files.
class TornTask final : public LineTask {
 public:
  std::shared_ptr<Dataset> make_dataset(const std::string& folder) override {
    const auto whole = LineTask::make_dataset(folder);
    return lockstep::make_dataset(32, [whole](std::int64_t i, SampleContext& context) {
      if (i == 5 || i == 20) throw DataError("cannot read image " + std::to_string(i) + ".png");
      return whole->get(i, context);
    });
  }
};

TEST(Trainer, ASampleThatCannotBeReadIsAnErrorUnlessBadSamplesAreSkipped) {
  const test::TempDir folder;
  TornTask task;
  TrainConfig config = line_config();
  EXPECT_THROW((void)Trainer(alone(), task, config, {.recipe = "line", .run_dir = folder.path() / "a"}).fit(),
               DataError);
  config.bad_samples = "skip";
  const auto run = folder.path() / "b";
  const TrainResult result = Trainer(alone(), task, config, {.recipe = "line", .run_dir = run}).fit();
  EXPECT_EQ(result.steps, 3 * 8);
  EXPECT_NE(read(run / "log.jsonl").find("\"bad_samples\": 2"), std::string::npos) << read(run / "log.jsonl");
}

TEST(Trainer, AMetricsNameIsCheckedOnTheFirstSampleThatCanBeRead) {
  struct : LineTask {
    std::shared_ptr<Dataset> make_dataset(const std::string& folder) override {
      const auto whole = LineTask::make_dataset(folder);
      return lockstep::make_dataset(32, [whole](std::int64_t i, SampleContext& context) {
        if (i == 0) throw DataError("cannot read image 0.png");
        return whole->get(i, context);
      });
    }
  } task;
  const test::TempDir folder;
  TrainConfig config = line_config();
  config.data.test = "line";
  config.bad_samples = "skip";
  config.stop_at.metric = "nonsense";
  try {
    (void)Trainer(alone(), task, config, {.recipe = "line", .run_dir = folder.path() / "a"}).fit();
    FAIL() << "the metric does not exist";
  } catch (const UsageError& error) {
    EXPECT_NE(error.message().find("stop_at.metric is 'nonsense'"), std::string::npos) << error.what();
  }
}

TEST(Trainer, AResumedRunKnowsTheBadSamplesOfTheRunBefore) {
  const test::TempDir folder;
  TrainConfig config = line_config();
  config.bad_samples = "skip";
  config.checkpoint = {.every_epochs = 1, .keep_last = 100};
  TornTask torn;
  (void)Trainer(alone(), torn, config, {.recipe = "line", .run_dir = folder / "run"}).fit();
  const std::string first_epoch = (folder / "run/checkpoints/step-00000008").string();
  LineTask mended;  // it has no bad samples, so the count comes from the checkpoint
  (void)Trainer(alone(), mended, config, {.recipe = "line", .run_dir = folder / "again", .resume = first_epoch}).fit();
  EXPECT_NE(read(folder / "again/log.jsonl").find("\"bad_samples\": 2"), std::string::npos);
}

TEST(Trainer, TheLogSaysWhichPartOfAnEpochWasWaitingForData) {
  const test::TempDir folder;
  (void)train(alone(), line_config(), folder.path() / "run");
  const std::string log = read(folder.path() / "run" / "log.jsonl");
  const std::size_t at = log.find("\"data_wait\": ");
  ASSERT_NE(at, std::string::npos);
  const double share = std::stod(log.substr(at + 13));
  EXPECT_GT(share, 0);
  EXPECT_LT(share, 1);
}

TEST(Trainer, SamplesThatMakeNoFullBatchAreAUsageError) {
  const test::TempDir folder;
  TrainConfig config = line_config();
  config.batch_size = 64;
  config.drop_last = true;
  EXPECT_THROW(train(alone(), config, folder / "run"), UsageError);
}

TEST(Trainer, FloatSixteenOnTheProcessorIsAUsageErrorThatSaysWhatToUse) {
  const test::TempDir folder;
  TrainConfig config = line_config();
  config.amp = "fp16";
  try {
    train(alone(), config, folder / "run");
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_NE(error.hint().find("amp = bf16"), std::string::npos) << error.hint();
  }
}

RANKS_TEST(Trainer, TwoRanksTrainOnHalvesAndOnlyTheMainOneWrites, 2) {
  const test::TempDir folder;  // each rank has its own folder, so the files show which rank wrote them
  const TrainResult result = train(job, line_config(), folder / "run");
  EXPECT_EQ(result.steps, 12);  // 32 samples on 2 ranks x 4
  EXPECT_EQ(FileSystem::system().exists(folder / "run/summary.json"), job.is_main());
  EXPECT_EQ(result.checkpoint.empty(), !job.is_main());
  EXPECT_EQ(result.metrics.size(), 1U);
}

// ---- settings that have their effect ----

class WideNet final : public torch::nn::Module {
 public:
  WideNet() {
    for (int i = 0; i < 4; ++i) {
      layers.push_back(register_module("layer" + std::to_string(i), torch::nn::Linear(i == 0 ? 1 : 640, 640)));
    }
  }
  std::vector<torch::nn::Linear> layers;
};

class WideTask final : public LineTask {
 public:
  std::shared_ptr<torch::nn::Module> make_model() override { return std::make_shared<WideNet>(); }
  at::Tensor forward(torch::nn::Module& model, const Batch& batch) override {
    at::Tensor x = batch.data;
    for (auto& layer : dynamic_cast<WideNet&>(model).layers) x = layer(x);
    return x.mean(1, true);
  }
};

RANKS_TEST(TrainerSettings, CudaGraphHasToBeTheSameOnEveryRank, 2) {
  const test::TempDir folder;
  TrainConfig config = line_config();
  config.cuda_graph = job.rank() == 0 ? "auto" : "false";
  const std::string error = test::fault_of<UsageError>([&] { (void)train(job, config, folder / "run"); });
  EXPECT_THAT(error, ::testing::HasSubstr("cuda_graph"));
}

RANKS_TEST(TrainerSettings, ATestSetOfOnlyOneRankIsAnErrorBeforeTheFirstStep, 2) {
  const test::TempDir folder;
  TrainConfig config = line_config();
  if (job.rank() == 1) config.data.test = "";
  const std::string error = test::fault_of<UsageError>([&] { (void)train(job, config, folder / "run"); });
  EXPECT_THAT(error, ::testing::HasSubstr("data.test"));
  EXPECT_THAT(error, ::testing::HasSubstr("set on rank 0; empty on rank 1"));
}

RANKS_TEST(TrainerSettings, BucketCapMbDecidesTheBucketsOfGradients, 2) {
  const auto buckets = [&job](std::int64_t cap) {
    WideTask task;
    TrainConfig config = line_config();
    config.workers = 0;
    config.bucket_cap_mb = cap;
    StepTimer timer(job, task, config, task.make_dataset(""));
    (void)timer.run(1);
    return timer.bucket_bytes();
  };
  // Three layers of 1.6 MB: the first closes the 1 MiB bucket; each later layer closes a 1 MiB bucket but not a 25 MiB
  // one.
  EXPECT_EQ(buckets(1).size(), 4U);
  EXPECT_EQ(buckets(3).size(), 3U);
  EXPECT_EQ(buckets(25).size(), 2U);
  EXPECT_EQ(buckets(100), buckets(25));
}

// ---- an exception in the user's code ----

/// Throws at the given point.
class ThrowingTask final : public LineTask {
 public:
  explicit ThrowingTask(std::string where) : where_(std::move(where)) {}
  std::shared_ptr<Dataset> make_dataset(const std::string& folder) override {
    if (where_ != "the data set") return LineTask::make_dataset(folder);
    return lockstep::make_dataset(32, [](std::int64_t) -> Sample { throw std::out_of_range("no such label"); });
  }
  at::Tensor forward(torch::nn::Module& model, const Batch& batch) override {
    if (where_ == "forward") throw std::out_of_range("no such label");
    return LineTask::forward(model, batch);
  }
  at::Tensor loss(const at::Tensor& output, const Batch& batch) override {
    if (where_ == "loss") return at::mse_loss(output.reshape({-1, 3}), batch.target);
    return LineTask::loss(output, batch);
  }

 private:
  std::string where_;
};

/// The exit code and the launcher's record of a program whose task throws in `where`.
std::pair<int, std::string> end_of_task(const std::string& where) {
  const test::TempDir folder;
  ::setenv("LOCKSTEP_ERROR_FILE", (folder / "error.json").c_str(), 1);
  const int code = guarded_main([&] {
    ThrowingTask task(where);
    TrainConfig config = line_config();
    Trainer(alone(), task, config, {.recipe = "line", .run_dir = folder / "run"}).fit();
    return 0;
  });
  ::unsetenv("LOCKSTEP_ERROR_FILE");
  return {code, read(folder / "error.json")};
}

TEST(UserException, IsToldWithStepAndSectionAndItsOwnExitCode) {
  const auto [code, text] = end_of_task("forward");
  EXPECT_EQ(code, 71);
  EXPECT_NE(text.find("ProgramError: your program threw std::out_of_range in forward (rank 0, step 1): no such label"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("#0 lockstep::trainer_test::ThrowingTask::forward("), std::string::npos) << text;
  EXPECT_EQ(text.find("please report this"), std::string::npos) << text;
}

TEST(UserException, AShapeMismatchOfLibtorchIsTheProgramsToo) {
  const auto [code, text] = end_of_task("loss");
  EXPECT_EQ(code, 71);
  // libtorch 1.13 throws std::runtime_error, libtorch 2.14 throws c10::Error.
  EXPECT_THAT(text, ::testing::ContainsRegex("your program threw (std::runtime_error|c10::Error) in loss "
                                             "\\(rank 0, step 1\\): shape '\\[-1, 3\\]' is invalid"));
  EXPECT_NE(text.find("ThrowingTask::loss("), std::string::npos) << text;
}

TEST(UserException, OfALoaderThreadNamesTheDataSet) {
  const auto [code, text] = end_of_task("the data set");
  EXPECT_EQ(code, 71);
  EXPECT_NE(text.find("threw std::out_of_range in the data set (rank 0, step 1): no such label"), std::string::npos)
      << text;
}

TEST(UserException, ItReachesTheProgramUnchanged) {
  const test::TempDir folder;
  ThrowingTask task("forward");
  TrainConfig config = line_config();
  Trainer trainer(alone(), task, config, {.recipe = "line", .run_dir = folder / "run"});
  EXPECT_THROW(trainer.fit(), std::out_of_range);
}

}  // namespace trainer_test
}  // namespace lockstep
