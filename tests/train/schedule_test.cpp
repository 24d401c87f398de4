// SPDX-License-Identifier: Apache-2.0
// Runs whose learning rate follows a schedule, above all one that follows the evaluations.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "lockstep/base/error.h"
#include "support/alone.h"
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

}  // namespace schedule_test
}  // namespace lockstep
