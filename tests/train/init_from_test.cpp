// SPDX-License-Identifier: Apache-2.0
// Fresh runs that start from the weights of another run or file, on one process and on two.
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/interop.h"
#include "lockstep/checkpoint/safetensors.h"
#include "support/alone.h"
#include "support/fault_of.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"

namespace lockstep {
namespace init_from_test {

namespace fs = std::filesystem;
using ::lockstep::test::fault_of;
using ::lockstep::test::noisy_config;
using ::lockstep::test::NoisyTask;
using ::lockstep::test::TempDir;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// One step that hardly moves the parameters: what is saved is what the run started from.
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

/// The tests' folder, the same on every rank: rank 0 of the test process has made it.
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

/// The network's tensors of more than half of its 146 elements, and those of less.
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
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("fills the model's first and nothing else, 48 of 146 elements"));
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
      HasSubstr("cannot both go on from"));
}

TEST(InitFrom, WeightsOfAnotherModelAreADataError) {
  const TempDir folder;
  write_safetensors(FileSystem::system(), folder / "a.safetensors", {{"firsts.weight", at::ones({16, 2})}});
  EXPECT_THAT(fault_of<DataError>([&] { train_from(alone(), folder / "run", folder / "a.safetensors"); }),
              HasSubstr("none of its 1 tensors fits the model: 'first.weight' (nearest there: 'firsts.weight')"));
}

}  // namespace init_from_test
}  // namespace lockstep
