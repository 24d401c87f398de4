// SPDX-License-Identifier: Apache-2.0
// Runs whose learning rate follows a schedule, above all one that follows the evaluations.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "lockstep/base/error.h"
#include "support/alone.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"

namespace lockstep {
namespace schedule_test {

namespace fs = std::filesystem;
using ::lockstep::test::digest_of;
using ::lockstep::test::NoisyRun;
using ::lockstep::test::TempDir;
using ::lockstep::test::train;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::HasSubstr;

/// Three steps an epoch. The threshold makes almost every evaluation a bad one.
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

/// Step 10 is no epoch's last: the evaluation that ends the shorter run is none of the longer one's.
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
    EXPECT_THAT(error.what(), HasSubstr("schedule.metric is 'accuracy', which the evaluation does not have"));
    EXPECT_THAT(error.what(), HasSubstr("one of error"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "run/checkpoints/step-00000001"));
  run.config.schedule.type = "constant";  // which asks for no metric
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

/// Two ranks with rates of their own would end with weights that one rank alone does not have.
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

}  // namespace schedule_test
}  // namespace lockstep
