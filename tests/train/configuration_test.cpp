// SPDX-License-Identifier: Apache-2.0
#include "train/settings/configuration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "train/plan/run_state.h"

namespace lockstep::train {
namespace configuration_test {

std::string settings(const std::function<void(TrainConfig&)>& change = [](TrainConfig&) {}) {
  TrainConfig config;
  change(config);
  return settings_text("line", config);
}

std::vector<Difference> different(const std::string& before, const std::string& now) {
  return differences(before, now, TrainConfig().rows());
}

std::string hash_of(const std::string& settings) { return configuration_hash(settings, TrainConfig().rows()); }

std::vector<std::string> keys(const std::vector<Difference>& differences) {
  std::vector<std::string> names;
  for (const Difference& difference : differences) names.push_back(difference.key);
  return names;
}

using Keys = std::vector<std::string>;

TEST(Configuration, NamesWhatChangesTheResultAndNothingElse) {
  const std::string now = settings([](TrainConfig& config) {
    config.workers = 7;
    config.data.train = "elsewhere";
    config.checkpoint.keep_last = 9;
    config.stop_at.metric = "error";
    config.replicas = 4;
    config.amp = "bf16";
    config.seed = 3;
  });
  const auto found = different(settings(), now);
  EXPECT_EQ(keys(found), (Keys{"amp", "seed"}));
  EXPECT_EQ(found[0].before, "none");
  EXPECT_EQ(found[0].now, "bf16");
  EXPECT_NE(hash_of(settings()), hash_of(now));
}

TEST(Configuration, TheHashSeesOnlyWhatChangesTheResult) {
  const std::string faster = settings([](TrainConfig& config) { config.workers = 7; });
  EXPECT_EQ(hash_of(settings()), hash_of(faster));
  EXPECT_EQ(hash_of(settings()).size(), 16U);
}

TEST(Configuration, TheLengthIsFreeWhereNoScheduleLooksAtIt) {
  const auto longer = [](const char* schedule) {
    return [schedule](TrainConfig& config) {
      config.schedule.type = schedule;
      config.epochs = 99;
    };
  };
  const auto plain = settings([](TrainConfig& config) { config.schedule.type = "none"; });
  EXPECT_TRUE(different(plain, settings(longer("none"))).empty());
  for (const char* type : {"constant", "step", "multi_step", "noam", "plateau"}) {
    const auto before = settings([type](TrainConfig& config) { config.schedule.type = type; });
    EXPECT_TRUE(different(before, settings(longer(type))).empty()) << type;
  }
  for (const char* type : {"one_cycle", "polynomial", "flat_cosine"}) {
    const auto before = settings([type](TrainConfig& config) { config.schedule.type = type; });
    EXPECT_EQ(keys(different(before, settings(longer(type)))), (Keys{"epochs"})) << type;
  }
  EXPECT_EQ(keys(different(settings(), settings(longer("cosine")))), (Keys{"epochs"}));
}

TEST(Configuration, EvaluationsAreFreeUnlessTheLearningRateFollowsThem) {
  const auto with_evaluations = [](const char* schedule, std::int64_t every) {
    return settings([&](TrainConfig& config) {
      config.schedule.type = schedule;
      config.eval_every_epochs = every;
    });
  };
  EXPECT_TRUE(different(with_evaluations("cosine", 1), with_evaluations("cosine", 3)).empty());
  EXPECT_EQ(keys(different(with_evaluations("plateau", 1), with_evaluations("plateau", 3))),
            (Keys{"eval_every_epochs"}));
}

TEST(Configuration, EvaluationsThatDecideWhenTheSecondStageBeginsAreNotFree) {
  const auto staged = [](std::int64_t every, const char* metric) {
    return settings([&](TrainConfig& config) {
      config.stages.stop_epoch = 4;
      config.eval_every_epochs = every;
      config.stop_at.metric = metric;
    });
  };
  EXPECT_EQ(keys(different(staged(1, "ap"), staged(2, "ap"))), (Keys{"eval_every_epochs"}));
  EXPECT_EQ(keys(different(staged(1, "ap"), staged(1, "loss"))), (Keys{"stop_at.metric"}));
}

TEST(Configuration, RanksHaveEverythingInCommonButWhatTheirHostsMayChoose) {
  const auto common = common_settings(settings(), TrainConfig().rows());
  for (const char* of_a_host : {"workers", "prefetch_factor", "pin_memory", "data.train", "data.test"}) {
    EXPECT_FALSE(common.contains(of_a_host)) << of_a_host;
  }
  for (const char* shared : {"recipe", "seed", "replicas", "bucket_cap_mb", "checkpoint.every_steps"}) {
    EXPECT_TRUE(common.contains(shared)) << shared;
  }
}

TEST(Configuration, AKeyOfALaterVersionCountsAsEqual) {
  EXPECT_TRUE(different("recipe: line\nseed: 0\n", settings()).empty());
  EXPECT_EQ(keys(different("recipe: other\n", settings())), (Keys{"recipe"}));
}

TEST(RunState, ComesBackFromAStateAsItWas) {
  const RunState run{.step = 7,
                     .epoch = 1,
                     .batch = 3,
                     .samples = 61,
                     .loss_sum = 0.1 + 0.2,
                     .loss_count = 3,
                     .best = Metric{"error", 0.25, true},
                     .best_step = 5,
                     .best_loss = 0.1 + 0.2,
                     .plateau = PlateauState{.lr = 0.1 + 0.2, .best = 0.25, .bad = 2, .cooldown = 1}};
  const RunState back = run_state_of(to_state(run));
  EXPECT_EQ(back.step, 7);
  EXPECT_EQ(back.batch, 3);
  EXPECT_EQ(back.loss_sum, run.loss_sum);
  ASSERT_TRUE(back.best.has_value());
  EXPECT_EQ(back.best->name, "error");
  EXPECT_TRUE(back.best->lower_is_better);
  EXPECT_EQ(back.best_step, 5);
  EXPECT_EQ(back.best_loss, run.best_loss);
  ASSERT_TRUE(back.plateau.has_value());
  EXPECT_EQ(back.plateau->lr, run.plateau->lr);
  EXPECT_EQ(back.plateau->best, 0.25);
  EXPECT_EQ(back.plateau->bad, 2);
  EXPECT_EQ(back.plateau->cooldown, 1);
  EXPECT_FALSE(run_state_of(to_state(RunState{})).plateau.has_value());
}

TEST(RunState, EqualEvaluationsAreJudgedByTheirLossAndThenTheLaterIsTheBest) {
  RunState run{.best = Metric{"accuracy", 0.0}, .best_step = 13, .best_loss = 0.5};
  EXPECT_TRUE(replaces_best(run, {"accuracy", 0.0}, 0.4));
  EXPECT_TRUE(replaces_best(run, {"accuracy", 0.0}, 0.5));
  EXPECT_FALSE(replaces_best(run, {"accuracy", 0.0}, 0.6));
  EXPECT_FALSE(replaces_best(run, {"accuracy", 0.0}, std::nan("")));
  EXPECT_TRUE(replaces_best(run, {"accuracy", 0.1}, 0.6)) << "the metric comes first";
  EXPECT_FALSE(replaces_best(run, {"accuracy", std::nan("")}, 0.1));
  run.best->value = std::nan("");
  EXPECT_TRUE(replaces_best(run, {"accuracy", std::nan("")}, 0.4));
  run.best_loss = std::nullopt;  // a checkpoint of an older version
  EXPECT_TRUE(replaces_best(run, {"accuracy", std::nan("")}, 0.9));
  EXPECT_TRUE(replaces_best(RunState{}, {"accuracy", 0.0}, std::nullopt));
}

TEST(RunState, BetterDependsOnTheMetric) {
  EXPECT_TRUE(is_better({"accuracy", 0.1}, std::nullopt));
  EXPECT_TRUE(is_better({"accuracy", 0.2}, Metric{"accuracy", 0.1}));
  EXPECT_FALSE(is_better({"accuracy", 0.1}, Metric{"accuracy", 0.1}));
  EXPECT_FALSE(is_better({"error", 0.2, true}, Metric{"error", 0.1, true}));
  EXPECT_TRUE(is_better({"error", 0.2, true}, Metric{"accuracy", 0.9}));
  const double nan = std::nan("");
  for (const bool lower : {false, true}) {
    EXPECT_TRUE(is_better({"error", 9, lower}, Metric{"error", nan, lower}));
    EXPECT_FALSE(is_better({"error", nan, lower}, Metric{"error", 9, lower}));
    EXPECT_FALSE(is_better({"error", nan, lower}, Metric{"error", nan, lower}));
  }
}

}  // namespace configuration_test
}  // namespace lockstep::train
