// SPDX-License-Identifier: Apache-2.0
// Runs with a learning-rate schedule, a moving average, or a sharded optimizer.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/optim/ema.h"
#include "lockstep/train/evaluate.h"
#include "support/alone.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"

namespace lockstep {
namespace weight_updates_test {

namespace fs = std::filesystem;
using ::lockstep::test::digest_of;
using ::lockstep::test::NoisyRun;
using ::lockstep::test::NoisyTask;
using ::lockstep::test::TempDir;
using ::lockstep::test::train;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::HasSubstr;

// Runs with a schedule, especially one that depends on the evaluations.

/// Three steps per epoch. With this threshold almost no evaluation counts as an improvement.
NoisyRun plateau_run(std::int64_t steps = 24) {
  NoisyRun run{.resume = "auto"};
  run.config.max_steps = steps;
  run.config.schedule = {
      .type = "plateau", .warmup_steps = 2, .min_lr = 1e-5, .factor = 0.5, .patience = 1, .threshold = 0.5};
  return run;
}

std::vector<double> logged_rates(const fs::path& run) {
  std::ifstream log(run / "log.jsonl");
  std::vector<double> rates;
  for (std::string line; std::getline(log, line);) {
    const auto entry = nlohmann::json::parse(line);
    if (entry.at("event") == "step") rates.push_back(entry.at("lr"));
  }
  return rates;
}

TEST(ScheduleRun, OnAPlateauTheLearningRateFallsAfterTheEvaluations) {
  const TempDir folder;
  train(alone(), folder / "run", plateau_run());
  const std::vector<double> rates = logged_rates(folder / "run");
  ASSERT_EQ(rates.size(), 24U);
  EXPECT_DOUBLE_EQ(rates[0], 0.005);
  EXPECT_DOUBLE_EQ(rates[1], 0.01);
  EXPECT_GE(std::set<double>(rates.begin() + 1, rates.end()).size(), 3U);
  for (std::size_t step = 2; step < rates.size(); ++step) {
    const double ratio = rates[step] / rates[step - 1];
    EXPECT_TRUE(ratio == 1 || (ratio == 0.5 && step % 3 == 0)) << "step " << step << " has " << rates[step];
  }
}

TEST(ScheduleRun, AResumedOneHasTheLearningRatesAndTheBitsOfTheUnbrokenOne) {
  const TempDir folder;
  train(alone(), folder / "whole", plateau_run());
  for (const int step : {2, 3, 7, 12, 20}) {
    const fs::path run = folder / fmt::format("from-{}", step);
    fs::copy(folder / "whole", run, fs::copy_options::recursive);
    for (int later = step + 1; later <= 24; ++later) fs::remove_all(run / fmt::format("checkpoints/step-{:08}", later));
    train(alone(), run, plateau_run());
    EXPECT_EQ(logged_rates(run), logged_rates(folder / "whole")) << "from step " << step;
    EXPECT_EQ(digest_of(run), digest_of(folder / "whole")) << "from step " << step;
  }
}

/// Step 10 is not the last of an epoch: the shorter run ends there with an evaluation, which the longer run does not
/// have.
TEST(ScheduleRun, WhatEndsARunEarlierIsNoEvaluationOfThePlateau) {
  const TempDir folder;
  train(alone(), folder / "whole", plateau_run());
  train(alone(), folder / "parts", plateau_run(10));
  train(alone(), folder / "parts", plateau_run());
  EXPECT_EQ(digest_of(folder / "parts"), digest_of(folder / "whole"));
}

TEST(ScheduleRun, AMetricThatDoesNotExistIsAUsageErrorNamingThoseThatDo) {
  const TempDir folder;
  NoisyRun run = plateau_run();
  run.config.schedule.metric = "accuracy";
  try {
    train(alone(), folder / "run", run);
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("schedule.metric is 'accuracy', which is not a metric of the evaluation"));
    EXPECT_THAT(error.what(), HasSubstr("one of error"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "run/checkpoints/step-00000001"));
  run.config.schedule.type = "constant";  // needs no metric
  EXPECT_NO_THROW(train(alone(), folder / "constant", run));
}

TEST(ScheduleRun, HowOftenAPlateauIsEvaluatedIsPartOfTheResult) {
  const TempDir folder;
  train(alone(), folder / "run", plateau_run(4));
  NoisyRun run = plateau_run();
  run.config.eval_every_epochs = 2;
  EXPECT_THROW(train(alone(), folder / "run", run), UsageError);
}

NoisyRun run_with(const std::string& type) {
  NoisyRun run = plateau_run(12);
  run.resume = "none";
  auto& schedule = run.config.schedule;
  if (type == "plateau") return run;
  schedule = {.type = type};
  if (type == "step") schedule.step_epochs = 1;
  if (type == "multi_step") schedule.milestones = {"1", "3"};
  if (type == "noam") {
    schedule.model_size = 16;
    schedule.warmup_steps = 4;
    run.config.optimizer.lr = 1;
  }
  return run;
}

class ScheduleOnRanks : public ::testing::TestWithParam<const char*> {};

/// Two ranks with different rates would not end with a single rank's weights.
TEST_P(ScheduleOnRanks, TwoHaveTheRatesAndTheBitsOfOne) {
  const TempDir folder;
  const std::string shared =
      std::getenv("LOCKSTEP_TEST_SHARED") ? std::getenv("LOCKSTEP_TEST_SHARED") : (folder / "two").string();
  run_ranks(current_test(), [&](Job& job) { train(job, shared, run_with(GetParam())); },
            {.world = 2, .env = {{"LOCKSTEP_TEST_SHARED", shared}}});
  train(alone(), folder / "one", run_with(GetParam()));
  EXPECT_EQ(logged_rates(shared), logged_rates(folder / "one"));
  EXPECT_EQ(digest_of(shared), digest_of(folder / "one"));
  const std::vector<double> rates = logged_rates(shared);
  EXPECT_EQ(std::set<double>(rates.begin(), rates.end()).size() > 1, std::string(GetParam()) != "constant");
}
INSTANTIATE_TEST_SUITE_P(OfEachType, ScheduleOnRanks,
                         ::testing::Values("constant", "step", "multi_step", "noam", "plateau"));

// Runs with a moving average: the same bits on any number of ranks and after any number of resumes, and the choice of
// the weights that are evaluated.

NoisyRun averaged_run() {
  NoisyRun run;
  run.config.ema = {.decay = 0.9, .warmups = 4};
  return run;
}

const std::string& expected_digest() {
  static const std::string kDigest = [] {
    const TempDir folder;
    train(alone(), folder / "run", averaged_run());
    return digest_of(folder / "run");
  }();
  return kDigest;
}

class EmaWorlds : public ::testing::TestWithParam<int> {};

/// Each rank evaluates with its own moving average: the best checkpoint's metric is part of the digest.
TEST_P(EmaWorlds, FourReplicasGiveOneDigest) {
  const TempDir folder;
  const std::string shared =
      std::getenv("LOCKSTEP_TEST_SHARED") ? std::getenv("LOCKSTEP_TEST_SHARED") : (folder / "run").string();
  run_ranks(current_test(), [&](Job& job) { train(job, shared, averaged_run()); },
            {.world = GetParam(), .env = {{"LOCKSTEP_TEST_SHARED", shared}}});
  EXPECT_EQ(digest_of(shared), expected_digest());
}
INSTANTIATE_TEST_SUITE_P(TwoAndThree, EmaWorlds, ::testing::Values(2, 3));

TEST(EmaRun, ResumedFromEveryStepItHasTheDigestOfTheUnbrokenOne) {
  const TempDir folder;
  train(alone(), folder / "whole", averaged_run());
  for (const int step : {1, 4, 9}) {
    NoisyRun run = averaged_run();
    run.resume = (folder / fmt::format("whole/checkpoints/step-{:08}", step)).string();
    const fs::path resumed = folder / fmt::format("from-{}", step);
    train(alone(), resumed, run);
    EXPECT_EQ(digest_of(resumed), expected_digest()) << "from step " << step;
  }
}

TEST(EmaRun, ChangesNothingInTheModelAndIsTheAverageOfItsSteps) {
  const TempDir folder;
  train(alone(), folder / "plain");
  train(alone(), folder / "run", averaged_run());
  const auto at_step = [&](const char* run, std::int64_t step) {
    return load_checkpoint((folder / fmt::format("{}/checkpoints/step-{:08}", run, step)).string());
  };
  const auto net = NoisyTask().make_model();
  load_model_state_dict(*net, at_step("run", 1).state("model"));
  EMA ema(*net, {.decay = 0.9, .warmups = 4});
  ema.load_state_dict(at_step("run", 1).state("ema"));
  for (std::int64_t step = 2; step <= 10; ++step) {
    load_model_state_dict(*net, at_step("plain", step).state("model"));
    ema.update();
  }
  const StateDict saved = at_step("run", 10).state("ema");
  const StateDict expected = ema.state_dict();
  ASSERT_EQ(saved.size(), expected.size());
  for (const auto& [name, value] : expected) {
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
      EXPECT_TRUE(std::get<at::Tensor>(saved.at(name)).equal(*tensor)) << name;
    } else {
      EXPECT_EQ(std::get<std::int64_t>(saved.at(name)), 10) << name;
    }
  }
}

TEST(EmaRun, IsEvaluatedWithTheAverageAndSavedWithTheWeights) {
  const TempDir folder;
  const TrainResult result = train(alone(), folder / "run", averaged_run());
  const Checkpoint last = load_checkpoint((folder / "run").string());
  NoisyTask task;
  const auto error_with = [&](const StateDict& weights) {
    const auto net = task.make_model();
    load_model_state_dict(*net, weights);
    const Job job = alone();
    job.set_replicas(4);
    return evaluate(job, task, *net, task.make_dataset(""), {.batch_size = 3, .replicas = 4}).metrics[0].value;
  };
  EXPECT_EQ(result.metrics[0].value, error_with(ema_state_of(last.state("ema")).model));
  EXPECT_NE(result.metrics[0].value, error_with(last.state("model")));
}

TEST(EmaRun, AStepThatWasLeftOutIsNoUpdate) {
  const TempDir folder;
  NoisyRun run = averaged_run();
  run.config.grad_scaler = {.enabled = "true", .init_scale = 1e38};
  const TrainResult result = train(alone(), folder / "run", run);
  ASSERT_GT(result.skipped_steps.value_or(0), 0);
  ASSERT_LT(*result.skipped_steps, result.steps);
  const EMAState saved = ema_state_of(load_checkpoint((folder / "run").string()).state("ema"));
  EXPECT_EQ(saved.updates, result.steps - *result.skipped_steps);
}

/// A moving average that starts from the weights of step 5 and includes those of steps up to 10.
StateDict average_since_step_5(const fs::path& run) {
  const auto model_at = [&run](std::int64_t step) {
    return load_checkpoint((run / fmt::format("checkpoints/step-{:08}", step)).string()).state("model");
  };
  const auto net = NoisyTask().make_model();
  load_model_state_dict(*net, model_at(5));
  EMA ema(*net, {.decay = 0.9, .warmups = 4});
  for (std::int64_t step = 6; step <= 10; ++step) {
    load_model_state_dict(*net, model_at(step));
    ema.update();
  }
  return ema.state_dict();
}

void expect_same_entries(const StateDict& saved, const StateDict& expected) {
  ASSERT_EQ(saved.size(), expected.size());
  for (const auto& [name, value] : expected) {
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
      EXPECT_TRUE(std::get<at::Tensor>(saved.at(name)).equal(*tensor)) << name;
    }
  }
}

TEST(EmaRun, ARunThatHadNoAverageMayBeginOneFromTheModelsWeights) {
  const TempDir folder;
  train(alone(), folder / "plain");
  NoisyRun run = averaged_run();
  run.resume = (folder / "plain/checkpoints/step-00000005").string();
  train(alone(), folder / "run", run);
  expect_same_entries(load_checkpoint((folder / "run").string()).state("ema"), average_since_step_5(folder / "plain"));
}

TEST(EmaRun, ACheckpointThatLostItsAverageStartsItAgain) {
  const TempDir folder;
  train(alone(), folder / "run", averaged_run());
  const Checkpoint fifth = load_checkpoint((folder / "run/checkpoints/step-00000005").string());
  CheckpointStates states;
  for (const char* name : {"model", "optimizer", "run"}) states[name] = fifth.state(name);
  const fs::path bare = commit_checkpoint(FileSystem::system(), folder / "bare/checkpoints", fifth.manifest().meta,
                                          states, {{"config.yml", fifth.text("config.yml").value()}});
  NoisyRun run = averaged_run();
  run.resume = bare.string();
  train(alone(), folder / "bare", run);
  expect_same_entries(load_checkpoint((folder / "bare").string()).state("ema"), average_since_step_5(folder / "run"));
}

TEST(EmaRun, OtherSettingsOfAnAverageThatIsThereAreAnotherConfiguration) {
  const TempDir folder;
  train(alone(), folder / "run", averaged_run());
  NoisyRun run = averaged_run();
  run.config.ema.decay = 0.5;
  run.resume = "auto";
  try {
    train(alone(), folder / "run", run);
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("ema.decay is 0.5, but was 0.9"));
  }
}

}  // namespace weight_updates_test

namespace zero_test {

using ::lockstep::test::digest_of;
using ::lockstep::test::NoisyRun;
using ::lockstep::test::TempDir;
using ::lockstep::test::train;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;

// Runs with sharded optimizer state and synced batch norm: they have the same digest as an unsharded process.

/// A run with a constant learning rate, so that the number of steps does not affect earlier steps.
NoisyRun run_with(std::int64_t steps, bool zero) {
  NoisyRun run{.resume = "auto"};
  run.config.max_steps = steps;
  run.config.schedule.type = "none";
  run.config.sync_batchnorm = true;
  run.config.optimizer.zero = zero;
  return run;
}

std::string variable(const char* name) { return std::getenv(name) == nullptr ? "" : std::getenv(name); }

/// One leg of a run on `world` processes; the environment describes the leg to the ranks.
void run_leg(const std::filesystem::path& folder, int world, std::int64_t steps) {
  run_ranks(current_test(),
            [](Job& job) {
              train(job, variable("LOCKSTEP_TEST_RUN"),
                    run_with(std::atoi(variable("LOCKSTEP_TEST_STEPS").c_str()), true));
            },
            {.world = world,
             .env = {{"LOCKSTEP_TEST_RUN", folder.string()}, {"LOCKSTEP_TEST_STEPS", std::to_string(steps)}}});
}

TEST(ZeroRun, FromTwoToFourToOneProcessHasTheDigestOfOneThatWasNeverSharded) {
  const TempDir folder;
  run_leg(folder / "run", 2, 4);
  run_leg(folder / "run", 4, 7);
  train(alone(), folder / "run", run_with(10, true));
  train(alone(), folder / "plain", run_with(10, false));
  EXPECT_EQ(digest_of(folder / "run"), digest_of(folder / "plain"));
}

TEST(ZeroRun, GoesOnWithoutZeroAndWithItAgain) {
  const TempDir folder;
  run_leg(folder / "run", 3, 3);
  train(alone(), folder / "run", run_with(6, false));
  train(alone(), folder / "run", run_with(8, true));
  train(alone(), folder / "plain", run_with(8, false));
  EXPECT_EQ(digest_of(folder / "run"), digest_of(folder / "plain"));
}

TEST(ZeroRun, SyncedBatchNormIsAnotherResultAndNoOtherSettingIs) {
  const TempDir folder;
  NoisyRun unsynced = run_with(4, false);
  unsynced.config.sync_batchnorm = false;
  train(alone(), folder / "unsynced", unsynced);
  train(alone(), folder / "synced", run_with(4, false));
  train(alone(), folder / "sharded", run_with(4, true));
  EXPECT_NE(digest_of(folder / "synced"), digest_of(folder / "unsynced"));
  EXPECT_EQ(digest_of(folder / "sharded"), digest_of(folder / "synced"));
}

}  // namespace zero_test
}  // namespace lockstep
