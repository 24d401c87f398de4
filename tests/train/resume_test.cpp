// SPDX-License-Identifier: Apache-2.0
// An interrupted and resumed run has the same bits as an uninterrupted one, on any number of ranks.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "lockstep/base/config.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/run_folder.h"
#include "lockstep/view/run_curves.h"
#include "support/alone.h"
#include "support/comma_locale.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"

namespace lockstep {
namespace resume_test {

namespace fs = std::filesystem;
using ::lockstep::test::digest_of;
using ::lockstep::test::noisy_config;
using ::lockstep::test::NoisyRun;
using ::lockstep::test::NoisyTask;
using ::lockstep::test::TempDir;
using ::lockstep::test::train;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The digest of the whole run in one process, computed once.
const std::string& expected_digest() {
  static const std::string digest = [] {
    const TempDir folder;
    train(alone(), folder / "run");
    return digest_of(folder / "run");
  }();
  return digest;
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

std::set<double> learning_rates(const fs::path& run) {
  std::set<double> rates;
  std::ifstream log(run / "log.jsonl");
  for (std::string line; std::getline(log, line);) {
    const auto at = line.find("\"lr\": ");
    if (line.find("\"images_per_s\"") != std::string::npos && at != std::string::npos)
      rates.insert(std::strtod(line.c_str() + at + 6, nullptr));
  }
  return rates;
}

/// A linear model with two inputs.
class PlainTask final : public Task {
 public:
  std::shared_ptr<Dataset> make_dataset(const std::string&) override {
    return lockstep::make_dataset(60, [](std::int64_t i, SampleContext&) {
      const double x = static_cast<double>((i * 37) % 67) / 30 - 1;
      const double y = static_cast<double>((i * 17) % 67) / 30 - 1;
      return Sample{at::tensor({x, y}, at::kFloat), at::full({1}, 2 * x - y)};
    });
  }
  std::shared_ptr<torch::nn::Module> make_model() override { return torch::nn::Linear(2, 1).ptr(); }
  at::Tensor forward(torch::nn::Module& model, const Batch& batch) override {
    return dynamic_cast<torch::nn::LinearImpl&>(model).forward(batch.data);
  }
  at::Tensor loss(const at::Tensor& output, const Batch& batch) override { return at::mse_loss(output, batch.target); }
  at::Tensor count(const at::Tensor&, const Batch& batch) override {
    return at::full({1}, static_cast<double>(batch.size), at::kDouble);
  }
  [[nodiscard]] std::vector<Metric> metrics(const at::Tensor&) const override { return {}; }
  [[nodiscard]] std::string model_name() const override { return "plain"; }
};

class ResumeWorlds : public ::testing::TestWithParam<int> {};

/// The tests' folder is the same on every rank: the test process created it.
TEST_P(ResumeWorlds, FourReplicasGiveOneDigest) {
  const TempDir folder;
  const std::string shared =
      std::getenv("LOCKSTEP_TEST_SHARED") ? std::getenv("LOCKSTEP_TEST_SHARED") : (folder / "run").string();
  run_ranks(current_test(), [&](Job& job) { train(job, shared); },
            {.world = GetParam(), .env = {{"LOCKSTEP_TEST_SHARED", shared}}});
  EXPECT_EQ(digest_of(shared), expected_digest());
}
INSTANTIATE_TEST_SUITE_P(TwoToFour, ResumeWorlds, ::testing::Values(2, 3, 4));

TEST(Resume, FromEveryStepGivesTheDigestOfTheUnbrokenRun) {
  const TempDir folder;
  train(alone(), folder / "whole");
  for (int step = 1; step < 10; ++step) {
    const fs::path run = folder / fmt::format("from-{}", step);
    const fs::path from = folder / fmt::format("whole/checkpoints/step-{:08}", step);
    const TrainResult result = train(alone(), run, {.resume = from.string()});
    EXPECT_EQ(result.steps, 10);
    EXPECT_EQ(digest_of(run), expected_digest()) << "from step " << step;
  }
}

TEST(Resume, TheDigestSeesSeedStepsAndSamplesButNotWorkers) {
  const TempDir folder;
  const auto digest_with = [&](const char* name, const NoisyRun& run) {
    train(alone(), folder / name, run);
    return digest_of(folder / name);
  };
  NoisyRun seed;
  seed.config.seed = 1;
  EXPECT_NE(digest_with("seed", seed), expected_digest());
  NoisyRun more;
  more.config.max_steps = 11;
  EXPECT_NE(digest_with("more", more), expected_digest());
  EXPECT_NE(digest_with("sample", {.task = NoisyTask(67, 5)}), expected_digest());
  NoisyRun workers;
  workers.config.workers = 0;
  EXPECT_EQ(digest_with("workers", workers), expected_digest());
}

TEST(Resume, AutoStartsAfreshThenGoesOnAndThenIsComplete) {
  const TempDir folder;
  NoisyRun run{.resume = "auto"};
  train(alone(), folder / "run", run);
  EXPECT_EQ(digest_of(folder / "run"), expected_digest());
  fs::remove_all(folder / "run/checkpoints/step-00000010");
  fs::remove_all(folder / "run/checkpoints/step-00000009");
  EXPECT_EQ(train(alone(), folder / "run", run).steps, 10);
  EXPECT_EQ(digest_of(folder / "run"), expected_digest());
  EXPECT_EQ(train(alone(), folder / "run", run).steps, 10);
  EXPECT_EQ(digest_of(folder / "run"), expected_digest());
}

TEST_P(ResumeWorlds, ARunThatIsCompleteHasTheMetricsOfItsEnd) {
  const TempDir folder;
  const std::string shared =
      std::getenv("LOCKSTEP_TEST_SHARED") ? std::getenv("LOCKSTEP_TEST_SHARED") : (folder / "run").string();
  run_ranks(current_test(),
            [&](Job& job) {
              NoisyRun run{.resume = "auto"};
              run.config.ema = {.decay = 0.9};
              const TrainResult first = train(job, shared, run);
              ASSERT_EQ(first.metrics.size(), 1U);
              const TrainResult again = train(job, shared, run);
              ASSERT_EQ(again.metrics.size(), 1U);
              EXPECT_EQ(again.metrics[0].name, first.metrics[0].name);
              EXPECT_EQ(again.metrics[0].value, first.metrics[0].value);
              EXPECT_EQ(again.metrics[0].lower_is_better, first.metrics[0].lower_is_better);
              EXPECT_EQ(again.best_step, first.best_step);
              EXPECT_EQ(again.epochs, first.epochs);
              EXPECT_EQ(again.checkpoint, first.checkpoint);
            },
            {.world = GetParam(), .env = {{"LOCKSTEP_TEST_SHARED", shared}}});
}

TEST(Resume, ARunThatWasKilledBeforeItsSummaryHasItsMetricsInIt) {
  const TempDir folder;
  NoisyRun run{.resume = "auto"};
  train(alone(), folder / "run", run);
  const std::string summary = FileSystem::system().read(folder / "run/summary.json");
  const auto metrics_of = [](const std::string& text) {
    return text.substr(text.find("\"metrics\""), text.find("\"checkpoint\"") - text.find("\"metrics\""));
  };
  fs::remove(folder / "run/summary.json");
  train(alone(), folder / "run", run);
  EXPECT_EQ(metrics_of(FileSystem::system().read(folder / "run/summary.json")), metrics_of(summary));
}

TEST(Resume, WithoutEvaluationsACompleteRunHasNoMetrics) {
  const TempDir folder;
  NoisyRun run{.resume = "auto"};
  run.config.eval_every_epochs = 0;
  EXPECT_TRUE(train(alone(), folder / "run", run).metrics.empty());
  EXPECT_TRUE(train(alone(), folder / "run", run).metrics.empty());
}

TEST(Resume, TheLogHasEachStepOnceAndTheLossesOfTheUnbrokenRun) {
  const TempDir folder;
  const auto losses = [&](const char* run) {
    std::ifstream log(folder / run / "log.jsonl");
    std::vector<std::string> found;
    for (std::string line; std::getline(log, line);) {
      if (line.find("\"images_per_s\"") != std::string::npos)
        found.push_back(line.substr(0, line.find("\"images_per_s\"")));
    }
    return found;
  };
  train(alone(), folder / "whole");
  train(alone(), folder / "broken");
  for (int step = 8; step <= 10; ++step) fs::remove_all(folder / fmt::format("broken/checkpoints/step-{:08}", step));
  train(alone(), folder / "broken", {.resume = "auto"});
  EXPECT_EQ(losses("broken"), losses("whole"));
  EXPECT_EQ(losses("whole").size(), 10U + 4U);  // four epochs started
}

TEST(Resume, ATornCheckpointIsSkippedForTheOneBefore) {
  const TempDir folder;
  train(alone(), folder / "run");
  fs::resize_file(folder / "run/checkpoints/step-00000010/model.safetensors", 100);
  train(alone(), folder / "run", {.resume = "auto"});
  EXPECT_EQ(digest_of(folder / "run"), expected_digest());
  EXPECT_TRUE(fs::exists(folder / "run/checkpoints/step-00000010.bad-1"));
}

TEST(Resume, WhereNoCheckpointVerifiesNothingIsBegun) {
  const TempDir folder;
  NoisyRun run;
  run.config.checkpoint.every_steps = 0;
  train(alone(), folder / "run", run);
  for (const auto& step : fs::directory_iterator(folder / "run/checkpoints")) {
    if (step.is_directory()) fs::resize_file(step.path() / "optimizer.safetensors", 9);
  }
  run.resume = "auto";
  EXPECT_THROW(train(alone(), folder / "run", run), DataError);
}

TEST(Resume, OtherSettingsAreAnErrorThatNamesThem) {
  const TempDir folder;
  train(alone(), folder / "run");
  NoisyRun run{.resume = "auto"};
  run.config.batch_size = 5;
  run.config.optimizer.lr = 0.5;
  run.config.workers = 0;  // may change on resume
  const std::string message = message_of([&] { train(alone(), folder / "run", run); });
  EXPECT_THAT(message, HasSubstr("batch_size is 5, but was 3, optimizer.lr is 0.5, but was 0.01"));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("workers")));
  run = {.resume = "auto"};
  run.config.replicas = 3;
  EXPECT_THAT(message_of([&] { train(alone(), folder / "run", run); }), HasSubstr("replicas is 3"));
  run = {.task = NoisyTask(68), .resume = "auto"};
  EXPECT_THAT(message_of([&] { train(alone(), folder / "run", run); }), HasSubstr("68 samples, but had 67"));
}

TEST(Resume, ReplicasAndThreadsComeFromTheCheckpoint) {
  const TempDir folder;
  NoisyRun run;
  run.config.max_steps = 3;
  run.config.schedule.type = "none";  // its length may then change
  run.config.threads = 2;
  train(alone(), folder / "run", run);
  run.config.max_steps = 4;
  run.config.replicas = 0;
  run.config.threads = 0;
  run.resume = "auto";
  EXPECT_EQ(train(alone(), folder / "run", run).replicas, 4);
  const CheckpointMeta meta = load_checkpoint((folder / "run").string()).manifest().meta;
  EXPECT_EQ(meta.replicas, 4);
  EXPECT_EQ(meta.threads, 2);
  EXPECT_EQ(meta.step, 4);
}

TEST(Resume, ARunWithoutACheckpointBeginsAgainAsWideAsItHadBegun) {
  const TempDir folder;
  train(alone(), folder / "run");
  fs::remove_all(folder / "run/checkpoints");  // killed before the first save
  NoisyRun run{.resume = "auto"};
  run.config.replicas = 0;
  EXPECT_EQ(train(alone(), folder / "run", run).replicas, 4);
  EXPECT_EQ(digest_of(folder / "run"), expected_digest());
}

/// A run of 10 steps, the first 5 with 2 replicas of 6 samples each.
NoisyRun begun_with_two() {
  NoisyRun run;
  run.config.replicas = 2;
  run.config.batch_size = 6;
  run.config.schedule.type = "none";  // its length may then change
  run.config.max_steps = 5;
  return run;
}

TEST(Resume, MoreReplicasAreAnErrorThatNamesTheOptionWhichAllowsThem) {
  const TempDir folder;
  NoisyRun run = begun_with_two();
  train(alone(), folder / "run", run);
  run.resume = "auto";
  run.config.replicas = 4;
  try {
    train(alone(), folder / "run", run);
    FAIL() << "the result would silently be another one";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.message(), "replicas is 4, but the checkpoint has 2");
    EXPECT_THAT(error.hint(), HasSubstr("TrainerOptions::allow_other_bits"));
  }
  run.allow_other_bits = true;
  run.config.replicas = 5;
  EXPECT_EQ(message_of([&] { train(alone(), folder / "run", run); }),
            "the run's batches of 12 samples (6 x 2 replicas) cannot be divided into 5 replicas");
}

TEST(Resume, WithMoreReplicasTheSameBatchesAreDividedIntoMoreParts) {
  const TempDir folder;
  NoisyRun run = begun_with_two();
  run.config.optimizer.lr_scaling = "replicas";
  train(alone(), folder / "run", run);
  run.config.max_steps = 10;
  run.config.replicas = 4;
  run.resume = "auto";
  run.allow_other_bits = true;
  EXPECT_EQ(train(alone(), folder / "run", run).steps, 10);
  const Checkpoint grown = load_checkpoint((folder / "run").string());
  EXPECT_EQ(grown.manifest().meta.replicas, 4);
  EXPECT_THAT(*grown.text("config.yml"), AllOf(HasSubstr("batch_size: 3\n"), HasSubstr("replicas: 4\n")));
  NoisyRun unbroken = begun_with_two();
  unbroken.config.optimizer.lr_scaling = "replicas";
  unbroken.config.max_steps = 10;
  train(alone(), folder / "unbroken", unbroken);
  const StateDict now = grown.state("run");
  const StateDict expected = load_checkpoint((folder / "unbroken").string()).state("run");
  for (const char* same : {"step", "epoch", "batch", "samples"}) {
    EXPECT_EQ(std::get<std::int64_t>(now.at(same)), std::get<std::int64_t>(expected.at(same))) << same;
  }
  EXPECT_EQ(std::get<std::int64_t>(now.at("begun.replicas")), 2);
  EXPECT_THAT(learning_rates(folder / "run"), ElementsAre(0.02)) << "0.01 x 2, and not x 4";
  EXPECT_EQ(learning_rates(folder / "unbroken"), learning_rates(folder / "run"));
}

/// A run of 3 epochs that drops the last batch and saves only if it has to. 2 replicas fill 3 batches of an epoch, 4
/// replicas fill 4.
NoisyRun dropping_run(std::int64_t replicas, std::int64_t max_steps) {
  NoisyRun run{.task = NoisyTask(45), .resume = "auto", .allow_other_bits = true};
  run.config.replicas = replicas;
  run.config.batch_size = 12 / replicas;
  run.config.drop_last = true;
  run.config.accumulate_steps = 1;
  run.config.schedule.type = "none";  // its length may then change
  run.config.epochs = 3;
  run.config.max_steps = max_steps;
  run.config.eval_every_epochs = 0;
  run.config.checkpoint.every_steps = 0;
  return run;
}

TEST(Resume, ARunThatIsDividedAnewHasTheStepsThatItWouldHaveHadAndSavesTheLast) {
  const TempDir folder;
  EXPECT_EQ(train(alone(), folder / "run", dropping_run(2, 4)).steps, 4);
  EXPECT_EQ(train(alone(), folder / "run", dropping_run(4, 0)).steps, 9) << "3 epochs of 3 steps";
  EXPECT_EQ(load_checkpoint((folder / "run").string()).step(), 9);
}

TEST(Resume, ARunThatHadFewerStepsPerEpochForATimeSavesTheLastOfItsLastEpoch) {
  const TempDir folder;
  EXPECT_EQ(train(alone(), folder / "run", dropping_run(4, 5)).steps, 5);
  EXPECT_EQ(train(alone(), folder / "run", dropping_run(2, 8)).steps, 8);
  const TrainResult result = train(alone(), folder / "run", dropping_run(4, 0));
  EXPECT_EQ(result.steps, 11) << "epochs of 4, 3 and 4 steps";
  EXPECT_EQ(load_checkpoint((folder / "run").string()).step(), 11);
  EXPECT_TRUE(fs::exists(folder / "run/summary.json"));
}

/// Uses a task without dropout and batch norm, so that a step depends only on its samples and the order of additions.
TEST(Resume, AStepOfMoreReplicasHasTheSamplesThatItWouldHaveHad) {
  const TempDir folder;
  PlainTask task;
  const auto run = [&](const char* name, std::int64_t replicas, std::int64_t steps, const char* resume) {
    TrainConfig config = begun_with_two().config;
    config.replicas = replicas;
    config.max_steps = steps;
    Trainer(alone(), task, config,
            {.recipe = "plain", .run_dir = folder / name, .resume = resume, .allow_other_bits = true})
        .fit();
    return std::get<at::Tensor>(load_checkpoint((folder / name).string()).state("model").at("weight"));
  };
  const at::Tensor unbroken = run("unbroken", 2, 11, "none");
  (void)run("grown", 2, 4, "none");
  const at::Tensor grown = run("grown", 12, 11, "auto");
  EXPECT_TRUE(at::allclose(grown, unbroken, 1e-5, 1e-7)) << grown << unbroken;
  EXPECT_FALSE(at::allclose(run("other", 2, 4, "none"), unbroken, 1e-5, 1e-7)) << "each step counts";
}

TEST(Resume, ARunThatIsDividedAnewGoesOnWithTheSettingsOfItsBeginning) {
  const TempDir folder;
  NoisyRun run = begun_with_two();
  train(alone(), folder / "run", run);
  run.config.max_steps = 7;
  run.config.replicas = 4;
  run.resume = "auto";
  run.allow_other_bits = true;
  train(alone(), folder / "run", run);
  run = begun_with_two();  // the old settings file, with 6 samples
  run.config.replicas = 0;
  run.config.max_steps = 10;
  run.resume = "auto";
  EXPECT_EQ(train(alone(), folder / "run", run).replicas, 4);
  run.config.batch_size = 5;
  EXPECT_THAT(message_of([&] { train(alone(), folder / "run", run); }), HasSubstr("batch_size is 5, but was 3"));
}

TEST_P(ResumeWorlds, ADividedRunHasOneDigestOnAnyNumberOfRanks) {
  const TempDir folder;
  const std::string shared =
      std::getenv("LOCKSTEP_TEST_SHARED") ? std::getenv("LOCKSTEP_TEST_SHARED") : (folder / "run").string();
  const auto grow = [](const Job& job, const fs::path& where) {
    NoisyRun run = begun_with_two();
    run.config.max_steps = 10;
    run.config.replicas = 4;
    run.resume = "auto";
    run.allow_other_bits = true;
    train(job, where, run);
  };
  if (!std::getenv("LOCKSTEP_TEST_SHARED")) {
    train(alone(), folder / "run", begun_with_two());
    train(alone(), folder / "alone", begun_with_two());
    grow(alone(), folder / "alone");
  }
  run_ranks(current_test(), [&](Job& job) { grow(job, shared); },
            {.world = GetParam(), .env = {{"LOCKSTEP_TEST_SHARED", shared}}});
  EXPECT_EQ(digest_of(shared), digest_of(folder / "alone"));
}

TEST(Resume, AnEarlierCheckpointOfTheSameFolderIsAnotherRun) {
  const TempDir folder;
  train(alone(), folder / "run");
  const std::string step = (folder / "run/checkpoints/step-00000004").string();
  EXPECT_THAT(message_of([&] { train(alone(), folder / "run", {.resume = step}); }), HasSubstr("step-00000010"));
  train(alone(), folder / "branch", {.resume = step});
  EXPECT_EQ(digest_of(folder / "branch"), expected_digest());
}

TEST(Resume, TheBestEvaluationIsNamedAndPruningSparesIt) {
  const TempDir folder;
  NoisyRun run;
  run.config.max_steps = 24;
  run.config.optimizer.lr = 0.2;  // so that the last checkpoint is rarely the best
  run.config.checkpoint = {.every_steps = 1, .keep_last = 1};
  train(alone(), folder / "run", run);
  const Checkpoint best = load_checkpoint((folder / "run").string() + ":best");
  const StateDict state = load_checkpoint((folder / "run").string()).state("run");
  EXPECT_EQ(std::get<std::int64_t>(state.at("best.step")), best.step());
  EXPECT_EQ(std::get<std::string>(state.at("best.metric")), "error");
  EXPECT_LE(std::distance(fs::directory_iterator(folder / "run/checkpoints"), fs::directory_iterator{}), 3);
}

RANKS_TEST(Evaluate, CountsEachSampleOnceOnAnyNumberOfReplicas, 2) {
  NoisyTask task;
  const auto model = task.make_model();
  const auto dataset = task.make_dataset("");
  for (const int replicas : {2, 3, 5}) {
    const Evaluation evaluation = evaluate(job, task, *model, dataset, {.batch_size = 4, .replicas = replicas});
    EXPECT_EQ(evaluation.counts[0].item<double>(), 67);
    EXPECT_EQ(evaluation.samples, 67);
  }
}

/// With --nnodes MIN:MAX, the launcher restarts the run with fewer ranks.
TEST(Resume, MoreRanksThanReplicasLeaveWhereTheLauncherCanGoOnWithFewer) {
  const TempDir folder;
  run_ranks(current_test(),
            [&](Job& job) {
              NoisyRun run;
              run.config.replicas = 2;
              const TrainResult result = train(job, folder / "run", run);
              EXPECT_EQ(result.stopped_by, "replicas");
              EXPECT_EQ(result.steps, 0);
            },
            {.world = 3, .env = {{"LOCKSTEP_MIN_WORLD_SIZE", "2"}}});
}

TEST(Resume, WithoutReplicasARunIsAsWideAsItsJobMayBecome) {
  const TempDir folder;
  run_ranks(current_test(),
            [&](Job& job) {
              NoisyRun run;
              run.config.replicas = 0;
              run.config.max_steps = 2;
              EXPECT_EQ(train(job, folder / "run", run).replicas, 6);
            },
            {.world = 2, .env = {{"LOCKSTEP_MAX_WORLD_SIZE", "6"}}});
}

TEST(Resume, AGroupThatIsStartedAgainWhileTheOneBeforeHoldsTheFolderFailsInAWayThatRestarts) {
  const TempDir folder;
  const bool is_rank = std::getenv("LOCKSTEP_TEST_SHARED") != nullptr;
  const std::string shared = is_rank ? std::getenv("LOCKSTEP_TEST_SHARED") : (folder / "run").string();
  std::optional<RunFolder> before;
  if (!is_rank) before.emplace(shared);  // the previous rank 0 is stuck in the kernel
  run_ranks(
      current_test(),
      [&](Job& job) {
        try {
          train(job, shared);
          ADD_FAILURE() << "two runs in one folder";
        } catch (const Error& error) {
          EXPECT_EQ(error.type(), std::string("TimeoutError")) << error.what();
          EXPECT_THAT(error.message(), HasSubstr("a process of the previous group (pid "));
        }
      },
      {.world = 2,
       .env = {{"LOCKSTEP_TEST_SHARED", shared}, {"TORCHELASTIC_RESTART_COUNT", "1"}, {"LOCKSTEP_TIMEOUT", "1"}}});
}

RANKS_TEST(Resume, MoreRanksThanReplicasIsAUsageErrorOnAll, 3) {
  const TempDir folder;
  NoisyRun run;
  run.config.replicas = 2;
  try {
    train(job, folder / "run", run);
    ADD_FAILURE() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), HasSubstr("2 replicas on 3 processes"));
    EXPECT_THAT(error.hint(), HasSubstr("start at most 2 processes (--nproc-per-node)"));
  }
}

/// Settings set from text, as with --set.
TrainConfig typed_config(std::int64_t steps) {
  TrainConfig config = noisy_config();
  ConfigTree tree;
  for (const char* each : {"optimizer.lr=0.0125", "clip_norm=0.25", "optimizer.weight_decay=0.001", "ema.decay=0.9",
                           "schedule.type=none", "log_every_steps=1"}) {
    tree.set(each, "--set");
  }
  config.rows().bind(tree);
  config.max_steps = steps;
  return config;
}

std::vector<double> values_of(const std::map<std::string, view::Curve>& curves, const std::string& name) {
  std::vector<double> values;
  for (const view::CurvePoint& point : curves.at(name)) values.push_back(point.value);
  return values;
}

TEST(Resume, InALocaleWithADecimalCommaTheRunIsThatOfAnyOther) {
  const TempDir folder;
  const auto train_twice = [&](const fs::path& run) {
    for (const std::int64_t steps : {4, 6}) train(alone(), run, {.config = typed_config(steps), .resume = "auto"});
    return view::read_run_curves(run);
  };
  const view::RunCurves plain = train_twice(folder / "plain");
  {
    const test::CommaLocale comma;
    const view::RunCurves found = train_twice(folder / "comma");
    EXPECT_EQ(found.damaged, 0);
    for (const char* name : {"loss", "lr"}) EXPECT_EQ(values_of(found.steps, name), values_of(plain.steps, name));
    EXPECT_EQ(values_of(found.metrics, "error"), values_of(plain.metrics, "error"));
    EXPECT_EQ(digest_of(folder / "comma"), digest_of(folder / "plain"));
  }
  EXPECT_EQ(values_of(plain.steps, "lr").front(), 0.0125);
  const auto read = [&](const char* file) { return FileSystem::system().read(folder / file); };
  EXPECT_EQ(read("comma/config.yml"), read("plain/config.yml"));
  const auto best = [&](const std::string& text) { return text.substr(text.find("\"best\""), 60); };
  EXPECT_EQ(best(read("comma/summary.json")), best(read("plain/summary.json")));
}

}  // namespace resume_test
}  // namespace lockstep
