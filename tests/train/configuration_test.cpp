// SPDX-License-Identifier: Apache-2.0
// The settings of a run: their meaning, their names, and their effect on the result.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/data/decode.h"
#include "lockstep/flight/snapshot.h"
#include "lockstep/train/config_alias.h"
#include "lockstep/train/train_config.h"
#include "noisy_task.h"
#include "support/alone.h"
#include "support/comma_locale.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"
#include "train/plan/run_state.h"
#include "train/settings/configuration.h"

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
  for (const char* per_host : {"workers", "prefetch_factor", "pin_memory", "data.train", "data.test"}) {
    EXPECT_FALSE(common.contains(per_host)) << per_host;
  }
  for (const char* shared : {"recipe", "seed", "replicas", "bucket_cap_mb", "cuda_graph", "checkpoint.every_steps"}) {
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
  run.best_loss = std::nullopt;  // as in a checkpoint from an older version
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

namespace lockstep {
namespace configuration_test {

using ::lockstep::testing::alone;
using test::noisy_config;
using test::NoisyTask;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

TrainConfig with(const std::string& assignment) {
  TrainConfig config;
  ConfigFields fields;
  config.describe(fields);
  ConfigTree tree = ConfigTree::from_text("data:\n  train: somewhere\n", "test");
  tree.set(assignment, "--set");
  fields.bind(tree);
  return config;
}

TEST(TrainConfig, ItsDefaultsAreValidOnceThereIsData) { EXPECT_NO_THROW(with("epochs=2").validate()); }

TEST(TrainConfig, DataOfStrangersIsBoundedByDefault) {
  EXPECT_EQ(TrainConfig().data.max_pixels, kDefaultMaxPixels);
  EXPECT_FALSE(TrainConfig().data.allow_outside);
}

// A rank whose disk hangs must name the sample before the other ranks time out.
TEST(TrainConfig, ABatchIsWaitedForLessLongThanACollective) {
  EXPECT_GT(TrainConfig().loader_timeout_s, 0);
  EXPECT_LT(TrainConfig().loader_timeout_s, 300);
}

TEST(TrainConfig, WithoutDataItIsAUsageErrorThatSaysWhatToSet) {
  try {
    TrainConfig().validate();
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "data.train is not set\n  next  --set data.train=FOLDER");
  }
}

TEST(TrainConfig, ValuesThatCannotBeAreNamed) {
  for (const char* wrong : {"epochs=0",
                            "batch_size=0",
                            "accumulate_steps=0",
                            "threads=-1",
                            "replicas=-1",
                            "workers=-1",
                            "prefetch_factor=0",
                            "bucket_cap_mb=0",
                            "optimizer.lr=0",
                            "clip_norm=-1",
                            "checkpoint.keep_last=0",
                            "max_steps=-1",
                            "schedule.warmup_epochs=-1",
                            "optimizer.weight_decay=-1",
                            "clip_value=-1",
                            "schedule.step_epochs=0",
                            "schedule.pct_start=1",
                            "schedule.factor=1",
                            "optimizer.eps=small",
                            "schedule.milestones=[1,x]",
                            "data.max_pixels=0",
                            "loader_timeout_s=-1",
                            "ema.decay=1",
                            "ema.warmups=-1",
                            "ema.start=-1"}) {
    const std::string key(wrong, std::string(wrong).find('='));
    try {
      with(wrong).validate();
      ADD_FAILURE() << wrong << " was taken";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.message(), AnyOf(StartsWith("--set: " + key + " is "), StartsWith(key + " is "),
                                         StartsWith("--set: " + key + " has ")));
    }
  }
}

TEST(TrainConfig, EveryIntegerHasARangeThatItsConsumerCanHold) {
  const TrainConfig config;
  const ConfigFields rows = config.rows();
  for (const auto& field : rows.fields()) {
    const bool is_integer =
        std::holds_alternative<std::int64_t*>(field.target) || std::holds_alternative<AutoInt*>(field.target);
    if (!is_integer || field.key == "seed") continue;  // every 64-bit number is a valid seed
    ASSERT_TRUE(field.range.has_value()) << field.key;
    EXPECT_GE(field.range->least, 0) << field.key;
    EXPECT_LE(field.range->most, 1e15) << field.key;
    const bool becomes_int = field.key == "replicas" || field.key == "threads" || field.key == "workers";
    EXPECT_LE(field.range->most, becomes_int ? INT_MAX : 1e15) << field.key;
  }
}

// A former bug: 4294967298 replicas became 2, and 2^40 became 0.
TEST(TrainConfig, AnIntegerThatA32BitNumberWouldCutIsRefused) {
  for (const char* value : {"4294967298", "1099511627776", "1180591620717411303424", "-4294967294"}) {
    try {
      (void)with(std::string("replicas=") + value);
      ADD_FAILURE() << value << " was taken";
    } catch (const UsageError& error) {
      EXPECT_EQ(error.message(), fmt::format("--set: replicas is {}; it must be 0 .. 1,000,000", value));
    }
  }
  TrainConfig config = with("epochs=1");
  config.replicas = std::int64_t{1} << 40;
  EXPECT_THROW(config.validate(), UsageError);
}

std::string message_of(const TrainConfig& config) {
  try {
    config.validate();
    return "no error";
  } catch (const UsageError& error) {
    return error.message();
  }
}

TEST(TrainConfig, AKeyThatTheOptimizerDoesNotHaveIsAUsageErrorOnlyWhereItWasSet) {
  EXPECT_EQ(message_of(with("optimizer.type=sgd")), "no error");
  TrainConfig config = with("optimizer.momentum=0.9");
  EXPECT_EQ(message_of(config), "optimizer.type is adamw: AdamW does not have momentum");
  config.optimizer.type = "sgd";
  EXPECT_EQ(message_of(config), "no error");
  config = with("optimizer.betas=[0.9]");
  EXPECT_EQ(message_of(config), "optimizer.betas has 1 numbers; it must have two");
  EXPECT_THROW(with("optimizer.type=sdg"), UsageError);
}

TEST(TrainConfig, AGroupOfTheOptimizerThatCannotBeIsNamed) {
  EXPECT_EQ(message_of(with("optimizer.groups=[{params: bias$, lr: 0.1, weight_decay: 0, betas: [0.8, 0.9]}]")),
            "no error");
  EXPECT_EQ(message_of(with("optimizer.groups=[{lr: 0.1}]")), "optimizer.groups[0] has no params");
  EXPECT_EQ(message_of(with("optimizer.groups=[{params: a},{params: b, leer: 1}]")),
            "optimizer.groups[1] has an unknown key 'leer' (did you mean 'lr'?)");
  EXPECT_EQ(message_of(with("optimizer.groups=[{params: a, lr: fast}]")),
            "optimizer.groups[0].lr is 'fast', not a number");
  EXPECT_EQ(message_of(with("optimizer.groups=[{params: a, betas: 0.9}]")),
            "optimizer.groups[0].betas is not a list of two numbers");
  EXPECT_EQ(message_of(with("optimizer.groups=[{params: a, lr: [1]}]")), "optimizer.groups[0].lr is a list");
  EXPECT_EQ(message_of(with("optimizer.groups=[{params: a, momentum: 0.9}]")),
            "the group 'a' of optimizer.groups: AdamW does not have momentum");
  EXPECT_EQ(message_of(with("optimizer.groups=[{params: a, lr: -1}]")),
            "the group 'a' of optimizer.groups: AdamW's lr is -1, which is not >= 0");
  EXPECT_THAT(message_of(with("optimizer.groups=[{params: '(a'}]")),
              ::testing::HasSubstr("is not a valid regular expression"));
}

TEST(TrainConfig, ClippingIsByNormOrByValue) {
  TrainConfig config = with("clip_value=0.5");
  EXPECT_EQ(message_of(config), "no error");
  config.clip_norm = 1;
  EXPECT_EQ(message_of(config), "clip_norm and clip_value are both set");
}

TEST(TrainConfig, SchedulesSayWhatTheyNeed) {
  EXPECT_EQ(message_of(with("schedule.type=plateau")), "schedule.type is plateau, which needs evaluations");
  EXPECT_EQ(message_of(with("schedule.type=noam")), "schedule.type is noam, which requires a warm-up");
  EXPECT_EQ(message_of(with("schedule.type=multi_step")), "schedule.milestones is empty");
  TrainConfig config = with("schedule.type=one_cycle");
  EXPECT_EQ(message_of(config), "no error");
  config.schedule.warmup_epochs = 1;
  EXPECT_EQ(message_of(config), "schedule.type is one_cycle, which has its own warm-up (schedule.pct_start)");
}

TEST(TrainConfig, TheBatchMayBeFoundOut) {
  const TrainConfig config = with("batch_size=auto");
  EXPECT_NO_THROW(config.validate());
  EXPECT_TRUE(config.batch_size.is_auto());
  try {
    with("batch_size=lots");
    ADD_FAILURE() << "lots was taken";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.message(),
              "--set: batch_size is 'lots', not a whole number or auto; it must be 1 .. 10,000,000 samples, or auto");
  }
}

TEST(TrainConfig, AnUnknownPrecisionIsNoChoice) { EXPECT_THROW(with("amp=fp8"), UsageError); }

// Settings under the names of another program: which one takes precedence, and the notes about it.

const std::vector<ConfigAlias>& known() {
  static const std::vector<ConfigAlias> kKnown = {
      {"lr", "optimizer.lr"},
      {"dataset_path", "data.train"},
      {"dataset_path", "data.test"},
      {"kind", "model.type", [](const std::string& value) { return value == "old" ? "new" : value; }},
      {"local_rank"},
      {.from = "logdir", .instead = "--run-dir"},
      {"loader.*"},
      {.from = "shuffle", .always = {"True"}},
      {.from = "model", .always = {"DFINE", "DEIM"}, .must_be = true}};
  return kKnown;
}

struct Renamed {
  ConfigTree tree;
  std::vector<std::string> notes;
  [[nodiscard]] std::string at(const std::string& key) const { return tree.values().at(key).yaml; }
};

Renamed rename(const std::string& file, const std::vector<std::pair<std::string, std::string>>& typed = {}) {
  ConfigTree tree = ConfigTree::from_text(file, "x.yml");
  for (const auto& [assignment, origin] : typed) tree.set(assignment, origin);
  Renamed renamed;
  renamed.tree = with_aliases(tree, known(), renamed.notes);
  return renamed;
}

TEST(ConfigAlias, PutsAValueUnderTheNameHereAndSaysSo) {
  const Renamed renamed = rename("lr: 0.5\nkind: old\nepochs: 3\n");
  EXPECT_EQ(renamed.at("optimizer.lr"), "0.5");
  EXPECT_EQ(renamed.at("model.type"), "new");
  EXPECT_EQ(renamed.at("epochs"), "3");
  EXPECT_EQ(renamed.tree.values().at("optimizer.lr").origin, "x.yml:1");
  EXPECT_THAT(renamed.notes,
              ElementsAre("settings under other names: kind is model.type here, lr is optimizer.lr here"));
}

TEST(ConfigAlias, OneNameMayBeSeveralKeysHere) {
  const Renamed renamed = rename("dataset_path: VOC2012\n");
  EXPECT_EQ(renamed.at("data.train"), "VOC2012");
  EXPECT_EQ(renamed.at("data.test"), "VOC2012");
}

TEST(ConfigAlias, NamesThatMeanNothingHereAreListedAndLeftOut) {
  const Renamed renamed = rename("local_rank: 0\nlogdir: x\nloader:\n  pin: true\n");
  EXPECT_THAT(renamed.tree.values(), IsEmpty());
  EXPECT_THAT(renamed.notes, ElementsAre("logdir is x, which has no effect here: use --run-dir",
                                         "settings without an effect here: loader.pin, local_rank"));
}

TEST(ConfigAlias, WhatHasNoEffectIsSaidFirstAndEachOnALineOfItsOwn) {
  const Renamed renamed = rename("kind: old\nlocal_rank: 0\nlogdir: x\nlr: 1\nshuffle: false\n");
  EXPECT_THAT(renamed.notes,
              ElementsAre("logdir is x, which has no effect here: use --run-dir",
                          "shuffle is false, which has no effect here: it is always True",
                          "settings without an effect here: local_rank", HasSubstr("settings under other names: ")));
}

TEST(ConfigAlias, WhatIsSoAnywayIsNotNamedAndAnotherValueIs) {
  EXPECT_THAT(rename("shuffle: true\n").notes, IsEmpty());
  EXPECT_THAT(rename("shuffle: ~\n").notes, IsEmpty());
  EXPECT_THAT(rename("shuffle: false\n").notes,
              ElementsAre("shuffle is false, which has no effect here: it is always True"));
}

TEST(ConfigAlias, AValueThatMustBeAnotherIsAnErrorWithItsPlace) {
  EXPECT_THAT(rename("model: 'DEIM'\n").notes, IsEmpty());
  EXPECT_THAT(test::fault_of<UsageError>([] { rename("lr: 1\nmodel: RTDETR\n"); }),
              AllOf(HasSubstr("x.yml:2: model is RTDETR"), HasSubstr("here it is DFINE or DEIM")));
}

TEST(ConfigAlias, OfManyNamesTheNoteHasTheFirst) {
  ConfigTree tree;
  std::vector<ConfigAlias> aliases;
  for (char name = 'a'; name <= 'z'; ++name) {
    tree.set(std::string(1, name) + "=1", "x.yml");
    aliases.push_back({std::string(1, name), std::string(2, name)});
  }
  std::vector<std::string> notes;
  (void)with_aliases(tree, aliases, notes);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], AllOf(HasSubstr("a is aa here"), HasSubstr("and 14 more"), Not(HasSubstr("z is zz here"))));
}

TEST(ConfigAlias, TheCommandLineWinsOverAFileUnderEitherName) {
  EXPECT_EQ(rename("optimizer:\n  lr: 0.5\n", {{"lr=0.1", "--set"}}).at("optimizer.lr"), "0.1");
  EXPECT_EQ(rename("optimizer:\n  lr: 0.5\n", {{"lr=0.1", "--lr"}}).at("optimizer.lr"), "0.1");
  EXPECT_EQ(rename("lr: 0.5\n", {{"optimizer.lr=0.1", "--set"}}).at("optimizer.lr"), "0.1");
}

TEST(ConfigAlias, InOnePlaceTheNameHereWins) {
  EXPECT_EQ(rename("optimizer:\n  lr: 0.5\nlr: 0.1\n").at("optimizer.lr"), "0.5");
  EXPECT_EQ(rename("", {{"optimizer.lr=0.5", "--set"}, {"lr=0.1", "--lr"}}).at("optimizer.lr"), "0.5");
}

TEST(ConfigAlias, ComparesNumbersWithAPointInALocaleWithADecimalComma) {
  const test::CommaLocale comma;
  const std::vector<ConfigAlias> aliases = {{.from = "gamma", .always = {"0.1"}, .must_be = true}};
  const auto take = [&](const char* yaml) {
    std::vector<std::string> notes;
    (void)with_aliases(ConfigTree::from_text(yaml, "x.yml"), aliases, notes);
  };
  EXPECT_NO_THROW(take("gamma: 0.10\n"));
  EXPECT_THROW(take("gamma: 0.2\n"), UsageError);
}

// The settings section_timeout.* are written to the flight ring, from which the launcher reads them.

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(SectionTimeout, OfEachSettingStandsInTheRingOfTheRank) {
  const test::TempDir folder;
  const std::filesystem::path ring = folder / "ring";
  ::setenv("LOCKSTEP_FLIGHT", ring.c_str(), 1);  // before the first init()
  NoisyTask task;
  TrainConfig config = noisy_config();
  config.max_steps = 1;
  config.section_timeout = {
      .setup = 101, .data = 102, .forward = 103, .backward = 104, .optimizer = 105, .evaluate = 106, .save = 0};
  Trainer trainer(alone(), task, config, {.recipe = "noisy", .run_dir = folder / "run"});
  (void)trainer.fit();
  std::map<std::string, std::int64_t> limits;
  for (const auto& name : flight::read_ring_file(ring).names) {
    // A name that occurs in several source files appears several times in the ring.
    if (name.limit_ns != 0) limits[name.name] = name.limit_ns;
  }
  EXPECT_THAT(limits, Contains(Pair("setup", 101 * kSecond)));
  EXPECT_THAT(limits, Contains(Pair("DataLoader::next", 102 * kSecond)));
  EXPECT_THAT(limits, Contains(Pair("forward", 103 * kSecond)));
  EXPECT_THAT(limits, Contains(Pair("backward", 104 * kSecond)));
  EXPECT_THAT(limits, Contains(Pair("optimizer", 105 * kSecond)));
  EXPECT_THAT(limits, Contains(Pair("evaluate", 106 * kSecond)));
  EXPECT_THAT(limits, Contains(Pair("save", ::testing::Lt(0)))) << "0 means any time";
}

}  // namespace configuration_test
}  // namespace lockstep
