// SPDX-License-Identifier: Apache-2.0
// The Trainer with the recipes on several fake GPUs: they save the same weights as one process with one GPU.
#include "support/host_waits.h"
// then the headers that need torch
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "captcha/config.h"
#include "captcha/synthetic/generate.h"
#include "captcha/task.h"
#include "captioning/config.h"
#include "captioning/task.h"
#include "detection/config.h"
#include "detection/task.h"
#include "lockstep/base/config.h"
#include "lockstep/base/env.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/train/trainer.h"
#include "segmentation/config.h"
#include "segmentation/task.h"
#include "support/double/ranks.h"
#include "support/temp_dir.h"
#include "train/step/loss_meter.h"

namespace lockstep {
namespace double_test {

using testing::current_test;
using testing::found_races;
using ::testing::IsEmpty;
using testing::ranks_on_gpus;
using testing::run_ranks;
namespace fs = std::filesystem;

constexpr const char* kFolder = "LOCKSTEP_TEST_FOLDER";

/// A few steps of the smoke preset. Adam's first steps depend only on the gradients' signs, which a difference in the
/// last bit may flip.
template <class Config>
Config few_steps_of(const std::map<std::string, std::string>& presets) {
  Config config;
  ConfigFields fields;
  config.describe(fields);
  fields.bind(ConfigTree::from_text(presets.at("smoke"), "smoke"));
  config.replicas = 4;
  config.batch_size = 2;
  config.total_batch_size = 0;
  config.epochs = 1;
  config.stages = {};
  config.schedule = {};
  config.optimizer = {};
  config.optimizer.type = "sgd";
  config.optimizer.lr = 0.01;
  config.clip_norm = 1;
  config.amp = "none";
  return config;
}

template <class TheTask, class Config>
TrainResult train(const Job& job, Config config, const fs::path& run, const std::string& resume = "none") {
  TheTask task(config);
  return Trainer(job, task, config, {.recipe = "test", .run_dir = run, .resume = resume}).fit();
}

Job alone_on_a_gpu() {
  const char* program = "test";
  return init(1, &program, {.device = testing::make_believe_gpu()});
}

void expect_same_state(const StateDict& found, const StateDict& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, value] : expected) {
    const auto* tensor = std::get_if<at::Tensor>(&value);
    if (tensor == nullptr) continue;
    EXPECT_TRUE(std::get<at::Tensor>(found.at(name)).allclose(*tensor, 1e-4, 1e-5)) << name;
  }
}

/// Expects the same weights, statistics and moving averages in the newest checkpoints of two runs.
void expect_same_runs(const fs::path& found, const fs::path& expected) {
  const auto one = load_checkpoint(found.string());
  const auto other = load_checkpoint(expected.string());
  expect_same_state(one.state("model"), other.state("model"));
  ASSERT_EQ(one.has("ema"), other.has("ema"));
  if (one.has("ema")) expect_same_state(one.state("ema"), other.state("ema"));
}

/// The run of one process with one GPU, performed once for all world sizes.
template <class TheTask, class Config>
const fs::path& run_of_one(const Config& config) {
  static const test::TempDir folder;
  static const fs::path run = train<TheTask>(alone_on_a_gpu(), config, folder / "run").run_dir;
  return run;
}

template <class TheTask, class Config>
void expect_to_train_as_one(int world, const Config& config) {
  const test::TempDir folder;
  run_ranks(
      current_test(),
      [&](Job& job) {
        EXPECT_EQ(job.backend(), "nccl");
        (void)train<TheTask>(job, config, fs::path(env::get(kFolder).value()) / "run");
        EXPECT_THAT(found_races(), IsEmpty());
      },
      ranks_on_gpus(world, {{kFolder, folder.path().string()}, {"LOCKSTEP_DOUBLE_DELAY_US", "200"}}));
  expect_same_runs(folder / "run", run_of_one<TheTask>(config));
}

class DoubleWorlds : public ::testing::TestWithParam<int> {};

/// Three steps with four replicas on the images in `folder`.
captcha::CaptchaConfig captcha_config(const fs::path& folder) {
  captcha::CaptchaConfig config;
  config.labels.charset = "0123456789";
  config.labels.width = 48;
  config.labels.height = 32;
  config.data.train = config.data.test = (folder / "set").string();
  config.replicas = 4;
  config.batch_size = 2;
  config.epochs = 1;
  config.clip_norm = 1;
  config.amp = "none";
  config.optimizer.type = "sgd";
  config.optimizer.lr = 0.01;  // a ReLU that rounding flips then changes a weight by less than the tolerance
  config.model_type = "conv3";
  return config;
}

void make_captchas(const fs::path& folder) {
  captcha::generate_captchas(
      {.out = folder / "set", .count = 24, .seed = 1, .charset = "0123456789", .width = 48, .height = 32});
}

/// Compares the ranks' run, with settings from `change`, with a single-process run.
template <class Change>
void expect_captcha_to_train_as_one(int world, const Change& change) {
  const test::TempDir folder;
  make_captchas(folder.path());
  run_ranks(
      current_test(),
      [&](Job& job) {
        const fs::path shared = env::get(kFolder).value();
        captcha::CaptchaConfig config = captcha_config(shared);
        change(config);
        (void)train<captcha::CaptchaTask>(job, config, shared / "ranks");
        EXPECT_THAT(found_races(), IsEmpty());
      },
      ranks_on_gpus(world, {{kFolder, folder.path().string()}, {"LOCKSTEP_DOUBLE_DELAY_US", "200"}}));
  captcha::CaptchaConfig config = captcha_config(folder.path());
  change(config);
  (void)train<captcha::CaptchaTask>(alone_on_a_gpu(), config, folder / "alone");
  expect_same_runs(folder / "ranks", folder / "alone");
}

TEST_P(DoubleWorlds, TrainCaptchaAsOneProcess) {
  expect_captcha_to_train_as_one(GetParam(), [](captcha::CaptchaConfig& config) { config.ema.decay = 0.5; });
}

/// The initial scale is too large for float32.
TEST_P(DoubleWorlds, SkipTheCaptchasFirstStepWhereItOverflows) {
  expect_captcha_to_train_as_one(GetParam(), [](captcha::CaptchaConfig& config) {
    config.grad_scaler = {.enabled = "true", .init_scale = 3e38, .backoff_factor = 1e-30};
    config.optimizer.zero = true;
    config.clip_norm = 0;  // otherwise the host would wait for the norm, and so for everything before it
  });
}

/// A run resumes from a mid-run checkpoint to which each rank contributed a part.
TEST_P(DoubleWorlds, GoOnFromTheMiddleOfARun) {
  const test::TempDir folder;
  make_captchas(folder.path());
  run_ranks(
      current_test(),
      [](Job& job) {
        const fs::path shared = env::get(kFolder).value();
        captcha::CaptchaConfig config = captcha_config(shared);
        config.optimizer.type = "adamw";
        config.optimizer.lr = 1e-3;
        config.optimizer.zero = config.checkpoint.sharded = true;
        config.checkpoint.every_steps = 1;
        (void)train<captcha::CaptchaTask>(job, config, shared / "whole");
        (void)train<captcha::CaptchaTask>(job, config, shared / "resumed",
                                          (shared / "whole/checkpoints/step-00000001").string());
        EXPECT_THAT(found_races(), IsEmpty());
      },
      ranks_on_gpus(GetParam(), {{kFolder, folder.path().string()}, {"LOCKSTEP_DOUBLE_DELAY_US", "200"}}));
  expect_same_runs(folder / "resumed", folder / "whole");
}

TEST_P(DoubleWorlds, TrainDetectionAsOneProcess) {
  auto config = few_steps_of<detection::DetectionConfig>(detection::presets());
  config.num_classes = 8;
  config.data.train = "scenes:16:1";
  config.data.test = "scenes:6:2";
  config.model.hidden = 32;
  config.model.heads = 2;
  config.model.encoder_feedforward = config.model.decoder_feedforward = 32;
  config.ema = {};
  expect_to_train_as_one<detection::DetectionTask>(GetParam(), config);
}

TEST_P(DoubleWorlds, TrainSegmentationAsOneProcess) {
  auto config = few_steps_of<segmentation::SegmentationConfig>(segmentation::presets());
  config.data.train = "scenes:16:1";
  config.data.test = "scenes:6:2";
  config.augment.crop = 48;
  segmentation::SegmentationTask::settle(config);
  expect_to_train_as_one<segmentation::SegmentationTask>(GetParam(), config);
}

/// The second stage learns from sampled captions.
TEST_P(DoubleWorlds, TrainCaptioningAsOneProcess) {
  auto config = few_steps_of<captioning::CaptioningConfig>(captioning::presets());
  config.data.train = "scenes:16:1";
  config.data.test = "scenes:6:2";
  config.model.dim = 32;
  config.model.feed_forward = 64;
  config.epochs = 2;
  config.stages.stop_epoch = 1;
  config.stages.roll_back = false;
  expect_to_train_as_one<captioning::CaptioningTask>(GetParam(), config);
}

/// With a real GPU, the host runs further ahead than with a fake one.
TEST(Double, WhatTheHostReadsLaterIsThereByThen) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  ::setenv("LOCKSTEP_DOUBLE_DELAY_US", "20000", 1);  // NOLINT(concurrency-mt-unsafe)
  const train::LateCopy copy(at::full({3}, 5.0, at::TensorOptions(testing::make_believe_gpu())));
  EXPECT_EQ(copy.get()[2].item<float>(), 5);
  ::unsetenv("LOCKSTEP_DOUBLE_DELAY_US");  // NOLINT(concurrency-mt-unsafe)
}

INSTANTIATE_TEST_SUITE_P(Of, DoubleWorlds, ::testing::Values(2, 3, 4));

}  // namespace double_test
}  // namespace lockstep
