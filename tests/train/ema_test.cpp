// SPDX-License-Identifier: Apache-2.0
// Runs with a moving average: the same bits on any number of ranks and however often resumed, and what is evaluated.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/optim/ema.h"
#include "lockstep/train/evaluate.h"
#include "support/alone.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"

namespace lockstep {
namespace ema_test {

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

/// Each rank evaluates with its own average: the best checkpoint's metric is part of the digest.
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

/// What an average holds that begins with the weights of step 5 and has seen those of the steps up to 10.
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
    EXPECT_THAT(error.what(), HasSubstr("ema.decay is 0.5 and was 0.9"));
  }
}

}  // namespace ema_test
}  // namespace lockstep
