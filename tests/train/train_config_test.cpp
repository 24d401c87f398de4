// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/train_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>

#include "lockstep/base/error.h"
#include "lockstep/data/decode.h"

namespace lockstep {
namespace train_config_test {

using ::testing::AnyOf;
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

// The rank whose disk hangs is to name the sample before the others give that rank up.
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
    if (!is_integer || field.key == "seed") continue;  // every number of 64 bits is a seed
    ASSERT_TRUE(field.range.has_value()) << field.key;
    EXPECT_GE(field.range->least, 0) << field.key;
    EXPECT_LE(field.range->most, 1e15) << field.key;
    const bool becomes_int = field.key == "replicas" || field.key == "threads" || field.key == "workers";
    EXPECT_LE(field.range->most, becomes_int ? INT_MAX : 1e15) << field.key;
  }
}

// 4294967298 replicas were 2 once, and 2^40 were none.
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
            "optimizer.groups[0].betas is no list of two numbers");
  EXPECT_EQ(message_of(with("optimizer.groups=[{params: a, lr: [1]}]")), "optimizer.groups[0].lr is a list");
  EXPECT_EQ(message_of(with("optimizer.groups=[{params: a, momentum: 0.9}]")),
            "the group 'a' of optimizer.groups: AdamW does not have momentum");
  EXPECT_EQ(message_of(with("optimizer.groups=[{params: a, lr: -1}]")),
            "the group 'a' of optimizer.groups: AdamW's lr is -1, which is not >= 0");
  EXPECT_THAT(message_of(with("optimizer.groups=[{params: '(a'}]")), ::testing::HasSubstr("is no regular expression"));
}

TEST(TrainConfig, ClippingIsByNormOrByValue) {
  TrainConfig config = with("clip_value=0.5");
  EXPECT_EQ(message_of(config), "no error");
  config.clip_norm = 1;
  EXPECT_EQ(message_of(config), "clip_norm and clip_value are both set");
}

TEST(TrainConfig, SchedulesSayWhatTheyNeed) {
  EXPECT_EQ(message_of(with("schedule.type=plateau")), "schedule.type is plateau, which needs evaluations");
  EXPECT_EQ(message_of(with("schedule.type=noam")), "schedule.type is noam, which needs a warm-up");
  EXPECT_EQ(message_of(with("schedule.type=multi_step")), "schedule.milestones is empty");
  TrainConfig config = with("schedule.type=one_cycle");
  EXPECT_EQ(message_of(config), "no error");
  config.schedule.warmup_epochs = 1;
  EXPECT_EQ(message_of(config), "schedule.type is one_cycle, which has a warm-up of its own (schedule.pct_start)");
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

}  // namespace train_config_test
}  // namespace lockstep
