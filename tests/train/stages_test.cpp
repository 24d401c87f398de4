// SPDX-License-Identifier: Apache-2.0
// Runs that start from existing weights, and runs in two stages.
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/interop.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/optim/ema.h"
#include "support/alone.h"
#include "support/fault_of.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"
#include "train/plan/stages.h"

namespace lockstep {
namespace stages_test {

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
using ::lockstep::train::Evaluated;
using ::lockstep::train::next_move;
using ::lockstep::train::note_evaluation;
using ::lockstep::train::StageMove;
using ::lockstep::train::StageState;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Runs in two stages: the switch between them, and the same bits on any number of ranks and despite any kills.

constexpr TrainConfig::Stages kThree{.stop_epoch = 3, .ema_restart_decay = 0.9, .ema_decay_step = 0.1};

Evaluated ap(double value, std::int64_t step, bool best) { return {{"ap", value}, step, best}; }

TEST(StageDecisions, TheFirstStageNamesItsBestAndRemembersItsStep) {
  StageState state;
  EXPECT_THAT(note_evaluation(kThree, state, ap(0.2, 10, true)), ElementsAre("best", "best_stg1"));
  EXPECT_THAT(note_evaluation(kThree, state, ap(0.1, 20, false)), IsEmpty());
  EXPECT_EQ(state.base_step, 10);
  EXPECT_FALSE(state.roll_back);
}

TEST(StageDecisions, TheSecondStageBeginsAtStopEpochAndNeverWhereThatIsBeyondTheRun) {
  StageState state{.base_step = 10};
  EXPECT_EQ(next_move(kThree, state, 2), StageMove::kNone);
  EXPECT_EQ(next_move(kThree, state, 3), StageMove::kRefresh);
  EXPECT_EQ(next_move({.stop_epoch = 999999}, state, 500), StageMove::kNone);
  EXPECT_EQ(next_move({.stop_epoch = 0}, state, 500), StageMove::kNone);
  make_move(kThree, StageMove::kRefresh, 3, Metric{"ap", 0.2}, state);
  EXPECT_EQ(state.stage, 2);
  EXPECT_EQ(state.decay, 0.9);
  EXPECT_EQ(next_move(kThree, state, 4), StageMove::kNone);
}

TEST(StageDecisions, AnEpochThatIsNoBetterIsUndoneWithALowerDecay) {
  StageState state{.stage = 2, .base_step = 10, .rival = Metric{"ap", 0.2}, .decay = 0.9};
  EXPECT_THAT(note_evaluation(kThree, state, ap(0.2, 40, false)), IsEmpty());
  EXPECT_EQ(next_move(kThree, state, 4), StageMove::kRollBack);
  make_move(kThree, StageMove::kRollBack, 4, Metric{"ap", 0.2}, state);
  EXPECT_DOUBLE_EQ(state.decay, 0.8);
  EXPECT_EQ(next_move(kThree, state, 5), StageMove::kNone);
}

TEST(StageDecisions, AfterThatAnythingIsBetterButOnlyABestOfBothStagesIsNamed) {
  StageState state{.stage = 2, .base_step = 10, .rival = std::nullopt, .decay = 0.8};
  EXPECT_THAT(note_evaluation(kThree, state, ap(0.1, 50, false)), IsEmpty());
  EXPECT_FALSE(state.roll_back);
  EXPECT_THAT(note_evaluation(kThree, state, ap(0.3, 60, true)), ElementsAre("best", "best_stg2"));
  EXPECT_EQ(state.base_step, 10) << "the second stage goes back to the first one's best, not to its own";
}

TEST(StageDecisions, AnEvaluationThatIsThereOnlyBecauseTheRunEndsUndoesNothing) {
  StageState state{.stage = 2, .rival = Metric{"ap", 0.2}};
  Evaluated worse = ap(0.1, 40, false);
  worse.counts = false;
  EXPECT_THAT(note_evaluation(kThree, state, worse), IsEmpty());
  EXPECT_FALSE(state.roll_back);
}

TEST(StageDecisions, ADecayDoesNotFallBelowZero) {
  StageState state{.stage = 2, .decay = 0.05, .roll_back = true};
  make_move(kThree, StageMove::kRollBack, 5, std::nullopt, state);
  EXPECT_EQ(state.decay, 0);
}

TEST(StageDecisions, TheFirstStageEndsAfterAsManyEvaluationsWithoutAGainAsPatienceSays) {
  constexpr TrainConfig::Stages kPatient{.stop_epoch = 50, .patience = 2};
  StageState state;
  (void)note_evaluation(kPatient, state, ap(0.2, 10, true));
  (void)note_evaluation(kPatient, state, ap(0.1, 20, false));
  EXPECT_EQ(next_move(kPatient, state, 2), StageMove::kNone);
  (void)note_evaluation(kPatient, state, ap(0.3, 30, true));
  (void)note_evaluation(kPatient, state, ap(0.3, 40, false));
  EXPECT_EQ(next_move(kPatient, state, 4), StageMove::kNone) << "a gain begins the count anew";
  Evaluated last = ap(0.1, 45, false);
  last.counts = false;
  (void)note_evaluation(kPatient, state, last);
  EXPECT_EQ(next_move(kPatient, state, 5), StageMove::kNone) << "a longer run would not have that evaluation";
  (void)note_evaluation(kPatient, state, ap(0.2, 50, false));
  EXPECT_EQ(next_move(kPatient, state, 5), StageMove::kRefresh);
}

TEST(StageDecisions, ABestByItsLossAloneIsTheBaseAndNoGainForThePatience) {
  constexpr TrainConfig::Stages kPatient{.stop_epoch = 50, .patience = 1};
  StageState state;
  (void)note_evaluation(kPatient, state, ap(0, 10, true));
  Evaluated tied = ap(0, 20, true);
  tied.gains = false;
  EXPECT_THAT(note_evaluation(kPatient, state, tied), ElementsAre("best", "best_stg1"));
  EXPECT_EQ(state.base_step, 20);
  EXPECT_EQ(next_move(kPatient, state, 2), StageMove::kRefresh);
}

TEST(StageDecisions, ASecondStageWithoutRollBackNeverGoesBack) {
  constexpr TrainConfig::Stages kOnward{.stop_epoch = 3, .roll_back = false};
  StageState state{.stage = 2, .base_step = 10, .rival = Metric{"ap", 0.2}};
  EXPECT_THAT(note_evaluation(kOnward, state, ap(0.1, 40, false)), IsEmpty());
  EXPECT_EQ(next_move(kOnward, state, 4), StageMove::kNone);
  EXPECT_THAT(note_evaluation(kOnward, state, ap(0.3, 50, true)), ElementsAre("best", "best_stg2"));
}

TEST(StageDecisions, TheSecondStagesEpochsAreCountedFromItsFirstAndEndWithTheRun) {
  TrainConfig config;
  config.epochs = 10;
  config.stages = {.stop_epoch = 8, .patience = 1, .epochs = 3};
  StageState state;
  EXPECT_EQ(last_epoch(config, state), 10) << "the start of the second one is not known yet";
  make_move(config.stages, StageMove::kRefresh, 4, std::nullopt, state);
  EXPECT_EQ(last_epoch(config, state), 7);
  state.begin_epoch = 8;
  EXPECT_EQ(last_epoch(config, state), 10);
}

TEST(StageDecisions, AStateIsWrittenAndReadWhole) {
  const StageState state{.stage = 2,
                         .base_step = 10,
                         .rival = Metric{"loss", 0.2, true},
                         .decay = 0.8,
                         .roll_back = true,
                         .no_better = 3,
                         .begin_epoch = 4};
  StateDict saved;
  add_stages(state, saved);
  const StageState read = train::stages_of(saved);
  EXPECT_EQ(read.stage, 2);
  EXPECT_EQ(read.base_step, 10);
  EXPECT_EQ(read.rival->name, "loss");
  EXPECT_EQ(read.decay, 0.8);
  EXPECT_TRUE(read.roll_back);
  EXPECT_EQ(read.no_better, 3);
  EXPECT_EQ(read.begin_epoch, 4);
}

TEST(StageDecisions, OneStageHasNoNamesButBestAndNoStateOfStages) {
  StageState state;
  EXPECT_THAT(note_evaluation({}, state, ap(0.2, 10, true)), ElementsAre("best"));
  StateDict saved;
  add_stages(state, saved);
  EXPECT_THAT(saved, IsEmpty());
}

/// 3 steps per epoch; with its high learning rate, some epochs do not improve the metric.
NoisyRun staged_run() {
  NoisyRun run;
  run.config.max_steps = 0;
  run.config.epochs = 8;
  run.config.optimizer.lr = 0.3;
  run.config.schedule.type = "constant";
  run.config.ema = {.decay = 0.9, .warmups = 4};
  run.config.stages = {.stop_epoch = 3, .ema_restart_decay = 0.8, .ema_decay_step = 0.1};
  return run;
}

std::vector<nlohmann::json> refreshes(const fs::path& run) {
  std::ifstream log(run / "log.jsonl");
  std::vector<nlohmann::json> found;
  for (std::string line; std::getline(log, line);) {
    auto json = nlohmann::json::parse(line);
    if (json["event"] == "refresh") found.push_back(std::move(json));
  }
  return found;
}

std::int64_t updates_at(const fs::path& run, std::int64_t step) {
  const fs::path folder = run / fmt::format("checkpoints/step-{:08}", step);
  return ema_state_of(load_checkpoint(folder.string()).state("ema")).updates;
}

struct Unbroken {
  TempDir folder;
  std::string said;
  std::string digest;
  fs::path run;
};

const Unbroken& unbroken() {
  static const auto* kRun = [] {
    auto* made = new Unbroken();
    made->run = made->folder / "run";
    ::testing::internal::CaptureStdout();
    train(alone(), made->run, staged_run());
    made->said = ::testing::internal::GetCapturedStdout();
    made->digest = digest_of(made->run);
    return made;
  }();
  return *kRun;
}

TEST(StagedRun, SaysWhenTheAverageIsRefreshedOnTheConsoleAndInTheLog) {
  EXPECT_THAT(unbroken().said, HasSubstr("refresh EMA at epoch 3 with decay 0.8: "));
  const auto log = refreshes(unbroken().run);
  ASSERT_FALSE(log.empty());
  EXPECT_EQ(log[0]["epoch"], 3);
  EXPECT_EQ(log[0]["step"], 9);
  EXPECT_EQ(log[0]["decay"], 0.8);
  EXPECT_EQ(log[0]["reason"], "stop_epoch");
}

TEST(StagedRun, AnEpochThatIsNoBetterGoesBackWithALowerDecay) {
  const auto log = refreshes(unbroken().run);
  ASSERT_GE(log.size(), 2U) << "the run was chosen to have one";
  EXPECT_EQ(log[1]["reason"], "no_better");
  EXPECT_NEAR(log[1]["decay"].get<double>(), 0.7, 1e-12);
  EXPECT_EQ(log[1]["from_step"], log[0]["from_step"]);
}

TEST(StagedRun, TheSecondStageGoesOnFromTheFirstOnesBest) {
  const auto first = refreshes(unbroken().run).at(0);
  const auto base = first["from_step"].get<std::int64_t>();
  EXPECT_EQ(updates_at(unbroken().run, 10), updates_at(unbroken().run, base) + 1);
  EXPECT_EQ(find_named_checkpoint(FileSystem::system(), unbroken().run / "checkpoints", "best_stg1").filename(),
            fmt::format("step-{:08}", base));
}

TEST(StagedRun, ResumedFromEveryStepItHasTheDigestOfTheUnbrokenOne) {
  const TempDir folder;
  for (const int step : {2, 8, 9, 10, 12, 13, 17}) {
    const fs::path resumed = folder / fmt::format("from-{}", step);
    fs::copy(unbroken().run, resumed, fs::copy_options::recursive);
    for (const auto& entry : fs::directory_iterator(resumed / "checkpoints")) {
      if (entry.is_directory() && entry.path().filename() > fmt::format("step-{:08}", step)) fs::remove_all(entry);
    }
    NoisyRun run = staged_run();
    run.resume = "auto";
    train(alone(), resumed, run);
    EXPECT_EQ(digest_of(resumed), unbroken().digest) << "from step " << step;
    EXPECT_EQ(refreshes(resumed).size(), refreshes(unbroken().run).size()) << "from step " << step;
  }
}

TEST(StagedRun, ResumedInAFolderOfItsOwnItTakesTheFirstStagesBestAlong) {
  const TempDir folder;
  NoisyRun run = staged_run();
  run.resume = (unbroken().run / "checkpoints/step-00000013").string();
  train(alone(), folder / "run", run);
  EXPECT_EQ(digest_of(folder / "run"), unbroken().digest);
  EXPECT_THAT(checkpoint_names(FileSystem::system(), folder / "run/checkpoints"), Contains("best_stg1"));
}

/// A process may be killed between saving a checkpoint and naming it; checkpoints without names are pruned.
TEST(StagedRun, ResumedWithoutTheNamesOfItsBestsItGivesThemAgain) {
  const TempDir folder;
  const fs::path run_dir = folder / "run";
  fs::copy(unbroken().run, run_dir, fs::copy_options::recursive);
  for (const auto& entry : fs::directory_iterator(run_dir / "checkpoints")) {
    if (entry.is_directory() && entry.path().filename() > "step-00000008") fs::remove_all(entry);
  }
  fs::remove(run_dir / "checkpoints/best_stg1");
  fs::remove(run_dir / "checkpoints/best");
  NoisyRun run = staged_run();
  run.config.checkpoint.keep_last = 1;
  run.resume = "auto";
  train(alone(), run_dir, run);
  EXPECT_EQ(digest_of(run_dir), unbroken().digest);
}

TEST(StagedRun, AnAverageThatBeganAfterTheBaseBeginsAnewWithIt) {
  const TempDir folder;
  NoisyRun plain = staged_run();
  plain.config.ema.decay = 0;
  plain.config.epochs = 3;
  train(alone(), folder / "run", plain);
  NoisyRun averaged = staged_run();
  averaged.resume = "auto";
  EXPECT_NO_THROW(train(alone(), folder / "run", averaged));
}

class StagedWorlds : public ::testing::TestWithParam<int> {};

TEST_P(StagedWorlds, FourReplicasGiveOneDigest) {
  const TempDir folder;
  const std::string shared =
      std::getenv("LOCKSTEP_TEST_SHARED") ? std::getenv("LOCKSTEP_TEST_SHARED") : (folder / "run").string();
  run_ranks(current_test(), [&](Job& job) { train(job, shared, staged_run()); },
            {.world = GetParam(), .env = {{"LOCKSTEP_TEST_SHARED", shared}}});
  EXPECT_EQ(digest_of(shared), unbroken().digest);
}
INSTANTIATE_TEST_SUITE_P(TwoAndThree, StagedWorlds, ::testing::Values(2, 3));

TEST(StagedRun, WithoutAnAverageItRefreshesTheWeights) {
  const TempDir folder;
  NoisyRun run = staged_run();
  run.config.ema.decay = 0;
  ::testing::internal::CaptureStdout();
  train(alone(), folder / "run", run);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("refresh weights at epoch 3: "));
}

/// A run whose model does not learn, so the second evaluation is not better than the first: stage 2 is epoch 3, with
/// its own rate.
NoisyRun impatient_run() {
  NoisyRun run = staged_run();
  run.config.optimizer.lr = 1e-12;
  run.config.ema.decay = 0;
  run.config.stages = {.stop_epoch = 7, .patience = 1, .epochs = 2, .lr = 0.05, .roll_back = false};
  return run;
}

std::vector<double> rates(const fs::path& run) {
  std::ifstream log(run / "log.jsonl");
  std::vector<double> found;
  for (std::string line; std::getline(log, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["event"] == "step") found.push_back(json["lr"]);
  }
  return found;
}

TEST(StagedRun, PatienceEndsTheFirstStageAndTheSecondHasItsOwnEpochsAndRate) {
  const TempDir folder;
  train(alone(), folder / "run", impatient_run());
  const auto log = refreshes(folder / "run");
  ASSERT_EQ(log.size(), 1U) << "the second stage does not go back";
  EXPECT_EQ(log[0]["reason"], "patience");
  EXPECT_EQ(log[0]["epoch"], 2);
  EXPECT_THAT(rates(folder / "run"),
              ElementsAre(1e-12, 1e-12, 1e-12, 1e-12, 1e-12, 1e-12, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05));
}

TEST(StagedRun, EndedByPatienceAndResumedFromEveryStepItHasOneDigest) {
  const TempDir folder;
  train(alone(), folder / "run", impatient_run());
  for (const int step : {4, 6, 7, 9}) {
    const fs::path resumed = folder / fmt::format("from-{}", step);
    fs::copy(folder / "run", resumed, fs::copy_options::recursive);
    for (const auto& entry : fs::directory_iterator(resumed / "checkpoints")) {
      if (entry.is_directory() && entry.path().filename() > fmt::format("step-{:08}", step)) fs::remove_all(entry);
    }
    NoisyRun run = impatient_run();
    run.resume = "auto";
    train(alone(), resumed, run);
    EXPECT_EQ(digest_of(resumed), digest_of(folder / "run")) << "from step " << step;
  }
}

TEST(StagedRun, ATornBestIsAnErrorThatNamesTheFile) {
  const TempDir folder;
  NoisyRun run = staged_run();
  run.config.checkpoint.async = false;
  std::int64_t evaluations = 0;
  run.task.on_forward = [&](std::int64_t) {
    // Truncates the second stage's file before the switch.
    const fs::path best = folder / "run/checkpoints/best_stg1";
    if (!fs::exists(best) || ++evaluations > 1) return;
    const fs::path step = find_named_checkpoint(FileSystem::system(), folder / "run/checkpoints", "best_stg1");
    fs::resize_file(step / "model.safetensors", fs::file_size(step / "model.safetensors") - 1);
  };
  run.config.stages.stop_epoch = 1;
  try {
    train(alone(), folder / "run", run);
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.message(), HasSubstr("model.safetensors"));
  }
}

TEST(StagedConfig, ASecondStageNeedsAnEvaluationBeforeIt) {
  TrainConfig config = staged_run().config;
  config.eval_every_epochs = 4;
  EXPECT_THROW(config.validate(), UsageError);
  config.eval_every_epochs = 3;
  EXPECT_NO_THROW(config.validate());
  config.eval_from_epoch = 3;  // the first evaluation would come after 6 epochs
  EXPECT_THROW(config.validate(), UsageError);
  config.eval_from_epoch = 2;
  EXPECT_NO_THROW(config.validate());
  config.data.test.clear();
  EXPECT_THROW(config.validate(), UsageError);
  config.stages.stop_epoch = 999999;
  EXPECT_NO_THROW(config.validate()) << "there is no second stage";
}

TEST(StagedConfig, SettingsOfASecondStageWithoutOneAreAnError) {
  TrainConfig config = staged_run().config;
  config.stages = {.patience = 3};
  EXPECT_THROW(config.validate(), UsageError);
  config.stages = {.lr = 0.1};
  EXPECT_THROW(config.validate(), UsageError);
  config.stages = {};
  EXPECT_NO_THROW(config.validate());
}

// New runs that start from the weights of another run or file, in one process and in two.

/// Settings for a run of one step that hardly changes the parameters, so that the run saves the parameters it started
/// with.
TrainConfig still_config() {
  TrainConfig config = noisy_config();
  config.max_steps = 1;
  config.optimizer.lr = 1e-12;
  config.ema = {.decay = 0.9, .warmups = 4};
  return config;
}

void train_from(const Job& job, const fs::path& run_dir, const fs::path& weights, const std::string& resume = "none",
                TrainConfig config = still_config()) {
  NoisyTask task;
  Trainer(job, task, config,
          {.recipe = "noisy", .run_dir = run_dir, .resume = resume, .init_from = weights, .init_from_partial = true})
      .fit();
}

bool is_near(const at::Tensor& a, const at::Tensor& b) { return at::allclose(a, b, 1e-6, 1e-7); }

at::Tensor entry_of(const fs::path& run, const std::string& state, const std::string& name = "first.weight") {
  return std::get<at::Tensor>(load_checkpoint(run.string()).state(state).at(name));
}

/// The tests' folder is the same on every rank: the test process created it.
class InitFromWorlds : public ::testing::TestWithParam<int> {};

TEST_P(InitFromWorlds, EveryRankAndTheAverageStartFromTheWeights) {
  const TempDir own;
  const char* given = std::getenv("LOCKSTEP_TEST_SHARED");
  const fs::path folder = given != nullptr ? fs::path(given) : own.path();
  if (given == nullptr) {
    test::train(alone(), folder / "before");
    export_weights((folder / "before").string(), folder / "weights.pth", {.prefix = "module."});
  }
  run_ranks(current_test(), [&](Job& job) { train_from(job, folder / "run", folder / "weights.pth"); },
            {.world = GetParam(), .env = {{"LOCKSTEP_TEST_SHARED", folder.string()}}});
  const at::Tensor before = entry_of(folder / "before", "model");
  EXPECT_TRUE(is_near(entry_of(folder / "run", "model"), before));
  EXPECT_TRUE(is_near(entry_of(folder / "run", "ema"), before));
}
INSTANTIATE_TEST_SUITE_P(OneAndTwo, InitFromWorlds, ::testing::Values(1, 2));

TEST(InitFrom, WhatFitsIsTakenAndTheRestStaysAsTheSeedMadeIt) {
  const TempDir folder;
  train_from(alone(), folder / "seeded", "");
  write_safetensors(
      FileSystem::system(), folder / "part.safetensors",
      {{"first.weight", at::ones({16, 2})}, {"last.weight", at::ones({5, 16})}, {"other", at::ones({1})}});
  train_from(alone(), folder / "run", folder / "part.safetensors");
  EXPECT_TRUE(is_near(entry_of(folder / "run", "model"), at::ones({16, 2})));
  EXPECT_TRUE(
      at::equal(entry_of(folder / "run", "model", "last.weight"), entry_of(folder / "seeded", "model", "last.weight")));
}

/// Tensors with more than half of the network's 146 elements.
StateDict most_weights() {
  return {{"first.weight", at::ones({16, 2})},
          {"first.bias", at::ones({16})},
          {"norm.weight", at::ones({16})},
          {"norm.bias", at::ones({16})}};
}

TEST(InitFrom, LessThanHalfOfTheModelIsAnErrorUnlessItIsMeant) {
  const TempDir folder;
  StateDict some = most_weights();
  write_safetensors(FileSystem::system(), folder / "most.safetensors", some);
  some.erase("norm.weight");
  write_safetensors(FileSystem::system(), folder / "some.safetensors", some);
  NoisyTask task;
  const auto start = [&](const char* run, const char* file) {
    TrainConfig config = still_config();
    Trainer(alone(), task, config, {.recipe = "noisy", .run_dir = folder / run, .init_from = folder / file}).fit();
  };
  start("a", "most.safetensors");
  EXPECT_THAT(fault_of<DataError>([&] { start("b", "some.safetensors"); }),
              AllOf(HasSubstr("fit only 64 of the model's 146 elements (43.8 %)"), HasSubstr("3 of 10 entries"),
                    HasSubstr("TrainerOptions::init_from_partial")));
  train_from(alone(), folder / "c", folder / "some.safetensors");
}

TEST(InitFrom, APartThatHasAnotherNameThereIsAnErrorUnlessItMayStartAtRandom) {
  const TempDir folder;
  StateDict most = most_weights();
  most["head.weight"] = at::ones({5, 16});
  write_safetensors(FileSystem::system(), folder / "other.safetensors", most);
  NoisyTask task;
  TrainConfig config = still_config();
  const auto start = [&] {
    Trainer(alone(), task, config,
            {.recipe = "noisy", .run_dir = folder / "a", .init_from = folder / "other.safetensors"})
        .fit();
  };
  EXPECT_THAT(fault_of<DataError>(start),
              AllOf(HasSubstr("parameters of the model random, and have 1 entries that the model does not have"),
                    HasSubstr("last.weight"), HasSubstr("head.weight"), HasSubstr("init_from_partial")));
  train_from(alone(), folder / "b", folder / "other.safetensors");
}

TEST(InitFrom, TheWeightsOfOneWholePartAreMeant) {
  const TempDir folder;
  const StateDict part = {{"first.weight", at::ones({16, 2})}, {"first.bias", at::ones({16})}};
  StateDict with_gap = part;
  with_gap.erase("first.bias");
  StateDict with_rest = part;
  with_rest["other.weight"] = at::ones({2});
  StateDict with_more = part;
  with_more["norm.bias"] = at::ones({16});
  NoisyTask task;
  const auto start = [&](const std::string& name, const StateDict& state) {
    const fs::path file = folder / (name + ".safetensors");
    write_safetensors(FileSystem::system(), file, state);
    TrainConfig config = still_config();
    Trainer(alone(), task, config, {.recipe = "noisy", .run_dir = folder / name, .init_from = file}).fit();
  };
  ::testing::internal::CaptureStderr();
  start("part", part);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("fills only the model's first, 48 of 146 elements"));
  EXPECT_TRUE(is_near(entry_of(folder / "part", "model"), at::ones({16, 2})));
  EXPECT_THAT(fault_of<DataError>([&] { start("gap", with_gap); }), HasSubstr("fit only 32 of the model's 146"));
  EXPECT_THAT(fault_of<DataError>([&] { start("rest", with_rest); }), HasSubstr("fit only 48 of the model's 146"));
  EXPECT_THAT(fault_of<DataError>([&] { start("more", with_more); }), HasSubstr("fit only 64 of the model's 146"));
}

TEST(InitFrom, WithResumeAutoARunThatHasACheckpointGoesOnFromIt) {
  const TempDir folder;
  write_safetensors(FileSystem::system(), folder / "a.safetensors", {{"first.weight", at::ones({16, 2})}});
  write_safetensors(FileSystem::system(), folder / "b.safetensors", {{"first.weight", at::ones({16, 2}).mul(2)}});
  TrainConfig config = still_config();
  config.max_steps = 2;
  train_from(alone(), folder / "run", folder / "a.safetensors", "auto", config);
  fs::remove_all(folder / "run/checkpoints/step-00000002");
  train_from(alone(), folder / "run", folder / "b.safetensors", "auto", config);
  EXPECT_EQ(load_checkpoint((folder / "run").string()).step(), 2);
  EXPECT_TRUE(is_near(entry_of(folder / "run", "model"), at::ones({16, 2})));
}

TEST(InitFrom, ToGoOnFromAPathAndToStartFromWeightsIsAUsageError) {
  const TempDir folder;
  EXPECT_THAT(
      fault_of<UsageError>([&] { train_from(alone(), folder / "run", folder / "a.safetensors", folder / "old"); }),
      HasSubstr("cannot both resume from"));
}

TEST(InitFrom, ToResumeFromAFileOfWeightsPointsToTheOptionForWeights) {
  const TempDir folder;
  write_safetensors(FileSystem::system(), folder / "last.safetensors", {{"first.weight", at::ones({16, 2})}});
  EXPECT_THAT(fault_of<DataError>([&] { train_from(alone(), folder / "run", "", folder / "last.safetensors"); }),
              AllOf(HasSubstr("last.safetensors is a weights file: it lacks the rest of a run's state"),
                    HasSubstr("TrainerOptions::init_from"), HasSubstr("last.safetensors")));
}

TEST(InitFrom, WeightsOfAnotherModelAreADataError) {
  const TempDir folder;
  write_safetensors(FileSystem::system(), folder / "a.safetensors", {{"firsts.weight", at::ones({16, 2})}});
  EXPECT_THAT(fault_of<DataError>([&] { train_from(alone(), folder / "run", folder / "a.safetensors"); }),
              HasSubstr("none of its 1 tensors fits the model: 'first.weight' (nearest in the file: 'firsts.weight')"));
}

}  // namespace stages_test
}  // namespace lockstep
