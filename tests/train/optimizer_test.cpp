// SPDX-License-Identifier: Apache-2.0
// optimizer.* and clip_value in runs: each type trains and resumes, and each key has an effect.
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/optim/make_optimizer.h"
#include "support/alone.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"
#include "train/settings/optimizer_choice.h"

namespace lockstep {
namespace optimizer_test {

namespace fs = std::filesystem;
using ::lockstep::test::digest_of;
using ::lockstep::test::NoisyRun;
using ::lockstep::test::TempDir;
using ::lockstep::test::train;
using ::lockstep::testing::alone;
using ::testing::HasSubstr;

NoisyRun short_run(const std::string& type) {
  NoisyRun run;
  run.config.max_steps = 4;
  run.config.eval_every_epochs = 0;
  run.config.optimizer.type = type;
  return run;
}

class EachType : public ::testing::TestWithParam<std::string> {};

TEST_P(EachType, TrainsAndGoesOnWithTheSameBits) {
  const TempDir folder;
  NoisyRun run = short_run(GetParam());
  train(alone(), folder / "whole", run);
  run.resume = (folder / "whole/checkpoints/step-00000002").string();
  train(alone(), folder / "resumed", run);
  EXPECT_EQ(digest_of(folder / "resumed"), digest_of(folder / "whole"));
  if (GetParam() != "adamw") {
    train(alone(), folder / "adamw", short_run("adamw"));
    EXPECT_NE(digest_of(folder / "adamw"), digest_of(folder / "whole"));
  }
}
INSTANTIATE_TEST_SUITE_P(Optimizers, EachType,
                         ::testing::Values("adamw", "adam", "sgd", "rmsprop", "adagrad", "lamb", "lars", "lion"),
                         [](const auto& test) { return test.param; });

TEST(OptimizerRun, ZeroWithAnotherTypeHasTheBitsOfTheTypeAlone) {
  const TempDir folder;
  NoisyRun run = short_run("sgd");
  run.config.optimizer.momentum = "0.9";
  run.config.optimizer.nesterov = "true";
  train(alone(), folder / "plain", run);
  run.config.optimizer.zero = true;
  train(alone(), folder / "zero", run);
  EXPECT_EQ(digest_of(folder / "zero"), digest_of(folder / "plain"));
  run = short_run("lamb");
  run.config.optimizer.zero = true;
  EXPECT_THROW(train(alone(), folder / "lamb", run), UsageError);
}

TEST(OptimizerRun, ClippingByValueIsAnotherResultAndEndsInTheSameBitsOnceResumed) {
  const TempDir folder;
  NoisyRun run = short_run("sgd");
  run.config.clip_norm = 0;
  train(alone(), folder / "free", run);
  run.config.clip_value = 1e-3;
  train(alone(), folder / "clipped", run);
  EXPECT_NE(digest_of(folder / "clipped"), digest_of(folder / "free"));
  run.config.optimizer.zero = true;
  train(alone(), folder / "sharded", run);
  EXPECT_EQ(digest_of(folder / "sharded"), digest_of(folder / "clipped"));
}

ConfigMap group(const std::string& params, const std::string& key, const std::string& value) {
  return {{"params", params}, {key, value}};
}

std::string error_of(const NoisyRun& run) {
  const TempDir folder;
  try {
    train(alone(), folder / "run", run);
  } catch (const UsageError& error) {
    return error.message();
  }
  return "no error";
}

TEST(OptimizerRun, GroupsHaveTheirOwnOptionsAndGoOnWithTheSameBits) {
  const TempDir folder;
  NoisyRun run = short_run("adamw");
  run.config.optimizer.groups = {group("^first", "lr", "0"), group("^norm", "weight_decay", "0")};
  train(alone(), folder / "whole", run);
  const auto weight = [&](const char* name, const char* entry) {
    return std::get<at::Tensor>(load_checkpoint((folder / name).string()).state("model").at(entry)).clone();
  };
  run.config.max_steps = 1;
  train(alone(), folder / "one", run);
  EXPECT_TRUE(weight("whole", "first.weight").equal(weight("one", "first.weight")));
  EXPECT_FALSE(weight("whole", "last.weight").equal(weight("one", "last.weight")));
  run.config.max_steps = 4;
  run.resume = (folder / "whole/checkpoints/step-00000002").string();
  train(alone(), folder / "resumed", run);
  EXPECT_EQ(digest_of(folder / "resumed"), digest_of(folder / "whole"));
  run.resume = "none";
  run.config.optimizer.zero = true;
  train(alone(), folder / "zero", run);
  EXPECT_EQ(digest_of(folder / "zero"), digest_of(folder / "whole"));
}

TEST(OptimizerRun, GroupsThatOverlapOrFindNothingAreErrorsThatNameThem) {
  NoisyRun run = short_run("adamw");
  run.config.optimizer.groups = {group("^first", "lr", "0.1"), group("bias$", "weight_decay", "0")};
  EXPECT_EQ(error_of(run), "parameter 'first.bias' is matched by two groups of AdamW: '^first' and 'bias$'");
  run.config.optimizer.groups = {group("^frist", "lr", "0.1")};
  EXPECT_EQ(error_of(run), "AdamW's group '^frist' matches none of 6 parameters");
}

TEST(OptimizerRun, AGroupThatMayBeEmptyIsANoteAndChangesNothing) {
  const TempDir folder;
  NoisyRun run = short_run("adamw");
  train(alone(), folder / "plain", run);
  run.config.optimizer.groups = {group("^frist", "lr", "0.1")};
  run.config.optimizer.groups.front()["may_be_empty"] = "true";
  ::testing::internal::CaptureStderr();
  train(alone(), folder / "empty", run);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("the optimizer's group '^frist' is empty"));
  EXPECT_EQ(digest_of(folder / "empty"), digest_of(folder / "plain"));
  run.config.optimizer.groups.front()["may_be_empty"] = "maybe";
  EXPECT_EQ(error_of(run), "optimizer.groups[0].may_be_empty must be true or false");
}

TEST(OptimizerOptions, AreThoseOfTheSettings) {
  const OptimizerConfig config{.lr = 0.5,
                               .weight_decay = 0.25,
                               .betas = {"0.8", "0.9"},
                               .eps = "1e-6",
                               .amsgrad = "true",
                               .momentum = "0.7",
                               .dampening = "0.1",
                               .nesterov = "false",
                               .alpha = "0.6",
                               .centered = "true",
                               .lr_decay = "0.2",
                               .initial_accumulator_value = "3",
                               .trust = "0.01"};
  const OptimizerOptions options = train::optimizer_options(config);
  EXPECT_EQ(options.lr, 0.5);
  EXPECT_EQ(options.weight_decay, 0.25);
  EXPECT_EQ(options.betas, (std::array<double, 2>{0.8, 0.9}));
  EXPECT_EQ(options.eps, 1e-6);
  EXPECT_EQ(options.amsgrad, true);
  EXPECT_EQ(options.momentum, 0.7);
  EXPECT_EQ(options.dampening, 0.1);
  EXPECT_EQ(options.nesterov, false);
  EXPECT_EQ(options.alpha, 0.6);
  EXPECT_EQ(options.centered, true);
  EXPECT_EQ(options.lr_decay, 0.2);
  EXPECT_EQ(options.initial_accumulator_value, 3);
  EXPECT_EQ(options.trust, 0.01);
  OptimizerConfig grouped;
  grouped.groups = {{{"params", "bias$"},
                     {"lr", "0.1"},
                     {"weight_decay", "0.2"},
                     {"eps", "1e-5"},
                     {"momentum", "0.3"},
                     {"betas", std::vector<std::string>{"0.4", "0.5"}}}};
  const ParameterGroup found = train::optimizer_options(grouped).groups.at(0);
  EXPECT_EQ(found.pattern, "bias$");
  EXPECT_EQ(found.lr, 0.1);
  EXPECT_EQ(found.weight_decay, 0.2);
  EXPECT_EQ(found.eps, 1e-5);
  EXPECT_EQ(found.momentum, 0.3);
  EXPECT_EQ(found.betas, (std::array<double, 2>{0.4, 0.5}));
  EXPECT_FALSE(train::optimizer_options({}).eps.has_value());
}

}  // namespace optimizer_test
}  // namespace lockstep
