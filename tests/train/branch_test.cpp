// SPDX-License-Identifier: Apache-2.0
// Runs that begin at a checkpoint of another run's folder.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "support/alone.h"
#include "support/fault_of.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"

namespace lockstep {
namespace branch_test {

namespace fs = std::filesystem;
using ::lockstep::test::digest_of;
using ::lockstep::test::fault_of;
using ::lockstep::test::noisy_config;
using ::lockstep::test::NoisyRun;
using ::lockstep::test::NoisyTask;
using ::lockstep::test::TempDir;
using ::lockstep::test::train;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string step_of(const fs::path& run, int step) {
  return (run / fmt::format("checkpoints/step-{:08}", step)).string();
}

/// A group that the launcher has restarted, with the resume setting that the user gave.
TEST(Branch, RestartedBeforeItsFirstSaveBeginsAgainAtTheSameCheckpoint) {
  const TempDir folder;
  const char* const given = std::getenv("LOCKSTEP_TEST_SHARED");
  const fs::path shared = given != nullptr ? fs::path(given) : folder.path();
  if (given == nullptr) train(alone(), shared / "run");
  run_ranks(current_test(), [&](Job& job) { train(job, shared / "branch", {.resume = step_of(shared / "run", 4)}); },
            {.world = 2, .env = {{"LOCKSTEP_TEST_SHARED", shared.string()}, {"TORCHELASTIC_RESTART_COUNT", "1"}}});
  EXPECT_EQ(digest_of(shared / "branch"), digest_of(shared / "run"));
}

/// Trains without saves between the evaluations.
TrainResult train_with(const fs::path& run_dir, const std::string& resume, RunCallbacks callbacks) {
  NoisyTask task;
  TrainConfig config = noisy_config();
  config.checkpoint.every_steps = 0;
  TrainerOptions options{.recipe = "noisy", .run_dir = run_dir, .resume = resume};
  options.sinks.push_back(run_callbacks(std::move(callbacks)));
  return Trainer(alone(), task, config, options).fit();
}

/// Starts `branch` from step 4 of `run` and ends it with an error before the evaluation after step 6.
void break_off(const fs::path& branch, const fs::path& run) {
  const auto fail = [](const StepResult& step) {
    if (step.step == 5) throw std::runtime_error("killed");
  };
  EXPECT_ANY_THROW((void)train_with(branch, step_of(run, 4), {.on_step = fail}));
}

TEST(Branch, BrokenOffBeforeItsFirstSaveStartsAgainFromTheSameCheckpoint) {
  const TempDir folder;
  train(alone(), folder / "run");
  const std::string expected = digest_of(folder / "run");
  break_off(folder / "branch", folder / "run");
  std::int64_t first = -1;
  (void)train_with(folder / "branch", "auto", {.on_start = [&](const RunStart& start) { first = start.step; }});
  EXPECT_EQ(first, 4);
  EXPECT_EQ(digest_of(folder / "branch"), expected);
  fs::remove_all(folder / "run");
  EXPECT_EQ(train(alone(), folder / "branch", {.resume = "auto"}).steps, 10) << "it has its own checkpoint now";
}

TEST(Branch, WhoseCheckpointIsGoneBeforeItsFirstSaveDoesNotStartFromTheBeginning) {
  const TempDir folder;
  train(alone(), folder / "run");
  break_off(folder / "branch", folder / "run");
  fs::remove_all(folder / "run");
  const auto go_on = [&] { train(alone(), folder / "branch", {.resume = "auto"}); };
  EXPECT_THAT(fault_of<DataError>(go_on),
              AllOf(HasSubstr("branch started from the checkpoint"), HasSubstr("step-00000004, which is gone")));
}

/// Trains `branch` from step 7 of `run` to its end, without an evaluation. Returns: what it prints.
std::string finish_without_evaluations(const fs::path& branch, const fs::path& run) {
  NoisyRun rest{.resume = step_of(run, 7)};
  rest.config.eval_every_epochs = 0;
  ::testing::internal::CaptureStdout();
  train(alone(), branch, rest);
  return ::testing::internal::GetCapturedStdout();
}

TEST(Branch, HasTheBestCheckpointOfTheRunSoFar) {
  const TempDir folder;
  train(alone(), folder / "run");
  const std::string said = finish_without_evaluations(folder / "branch", folder / "run");
  EXPECT_THAT(said, HasSubstr("branch:best)"));
  const StateDict state = load_checkpoint((folder / "branch").string()).state("run");
  const Checkpoint best = load_checkpoint((folder / "branch").string() + ":best");
  EXPECT_EQ(best.step(), std::get<std::int64_t>(state.at("best.step")));
  EXPECT_EQ(digest_of(best.path()), digest_of(step_of(folder / "run", static_cast<int>(best.step()))));
}

TEST(Branch, WhoseBestCheckpointIsGoneDoesNotNameIt) {
  const TempDir folder;
  train(alone(), folder / "run");
  for (const int step : {3, 6}) fs::remove_all(step_of(folder / "run", step));
  const std::string said = finish_without_evaluations(folder / "branch", folder / "run");
  EXPECT_THAT(said, AllOf(HasSubstr("best"), Not(HasSubstr(":best"))));
  EXPECT_FALSE(fs::exists(folder / "branch/checkpoints/best"));
}

TEST(Branch, WhoseBestCheckpointIsDamagedGoesOnWithoutIt) {
  const TempDir folder;
  train(alone(), folder / "run");
  for (const int step : {3, 6}) fs::resize_file(fs::path(step_of(folder / "run", step)) / "model.safetensors", 100);
  (void)finish_without_evaluations(folder / "branch", folder / "run");
  EXPECT_EQ(load_checkpoint((folder / "branch").string()).step(), 10);
  EXPECT_FALSE(fs::exists(folder / "branch/checkpoints/best"));
}

TEST(Branch, ANewRunForgetsAnEarlierStartInItsFolder) {
  const TempDir folder;
  const fs::path note = folder / "run/resumed_from.json";
  fs::create_directories(folder / "run");
  write_file_atomically(FileSystem::system(), note, "{\"path\": \"/nowhere/step-00000004\"}\n");
  train(alone(), folder / "run");
  EXPECT_FALSE(fs::exists(note));
}

}  // namespace branch_test
}  // namespace lockstep
