// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/train_config.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

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

TEST(TrainConfig, WithoutDataItIsAUsageErrorThatSaysWhatToSet) {
  try {
    TrainConfig().validate();
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "data.train is not set\n  next  --set data.train=FOLDER");
  }
}

TEST(TrainConfig, ValuesThatCannotBeAreNamed) {
  for (const char* wrong : {"epochs=0", "batch_size=0", "accumulate_steps=0", "threads=-1", "replicas=-1", "workers=-1",
                            "prefetch_factor=0", "optimizer.lr=0", "clip_norm=-1", "checkpoint.keep_last=0",
                            "max_steps=-1", "schedule.warmup_epochs=-1", "optimizer.weight_decay=-1"}) {
    const TrainConfig config = with(wrong);
    const std::string key(wrong, std::string(wrong).find('='));
    try {
      config.validate();
      ADD_FAILURE() << wrong << " was taken";
    } catch (const UsageError& error) {
      EXPECT_EQ(error.message().rfind(key + " is ", 0), 0) << error.message();
    }
  }
}

TEST(TrainConfig, TheBatchMayBeFoundOut) {
  const TrainConfig config = with("batch_size=auto");
  EXPECT_NO_THROW(config.validate());
  EXPECT_TRUE(config.batch_size.is_auto());
  try {
    with("batch_size=lots");
    ADD_FAILURE() << "lots was taken";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.message(), "--set: batch_size is 'lots', not a whole number or auto");
  }
}

TEST(TrainConfig, AnUnknownPrecisionIsNoChoice) { EXPECT_THROW(with("amp=fp8"), UsageError); }

}  // namespace
}  // namespace lockstep
