// SPDX-License-Identifier: Apache-2.0
// The Trainer with a recipe on several fake GPUs: recorded steps give the same weights as ordinary ones.
#include "support/host_waits.h"
// then the headers that need torch
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <torch/serialize.h>

#include <filesystem>

#include "captcha/config.h"
#include "captcha/synthetic/generate.h"
#include "captcha/task.h"
#include "lockstep/base/env.h"
#include "lockstep/train/step_timer.h"
#include "lockstep/train/trainer.h"
#include "support/double/ranks.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace graph_double_test {

using testing::current_test;
using testing::found_races;
using testing::found_replays;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ranks_on_gpus;
using testing::run_ranks;
namespace fs = std::filesystem;

/// Exposes the network to the test.
class KeptTask final : public captcha::CaptchaTask {
 public:
  using CaptchaTask::CaptchaTask;
  std::shared_ptr<torch::nn::Module> make_model() override { return net_ = CaptchaTask::make_model(); }
  [[nodiscard]] std::vector<at::Tensor> weights() const {
    std::vector<at::Tensor> weights;
    for (const at::Tensor& parameter : net_->parameters()) weights.push_back(parameter.detach().cpu());
    return weights;
  }

 private:
  std::shared_ptr<torch::nn::Module> net_;
};

constexpr const char* kFolder = "LOCKSTEP_TEST_FOLDER";
constexpr int kStepsOfAnEpoch = 10;

/// Fifty steps of `replicas` replicas with two images each.
captcha::CaptchaConfig config_of(int replicas, const fs::path& folder) {
  captcha::CaptchaConfig config;
  config.labels.charset = "0123456789";
  config.labels.width = 48;
  config.labels.height = 32;
  config.data.train = config.data.test = (folder / "set").string();
  config.replicas = replicas;
  config.batch_size = 2;
  config.epochs = 5;
  config.clip_norm = 1;
  config.amp = "none";
  config.optimizer.type = "sgd";
  config.optimizer.lr = 0.01;
  config.model_type = "conv3";
  return config;
}

void make_set(const fs::path& folder, int replicas) {
  captcha::generate_captchas({.out = folder / "set",
                              .count = kStepsOfAnEpoch * 2 * replicas,
                              .seed = 1,
                              .charset = "0123456789",
                              .width = 48,
                              .height = 32});
}

std::vector<at::Tensor> trained(const Job& job, captcha::CaptchaConfig config, const fs::path& run) {
  KeptTask task(config);
  (void)Trainer(job, task, config, {.recipe = "captcha", .run_dir = run}).fit();
  return task.weights();
}

/// Trains the ranks twice, with and without recorded steps.
void train_twice(const Job& job, captcha::CaptchaConfig config) {
  ASSERT_THAT(job.backend(), HasSubstr("nccl"));
  const fs::path shared = env::get(kFolder).value();
  config.cuda_graph = "true";
  const std::vector<at::Tensor> recorded = trained(job, config, shared / "recorded");
  EXPECT_EQ(found_replays(), config.epochs * kStepsOfAnEpoch - 11);
  EXPECT_THAT(found_races(), IsEmpty());
  config.cuda_graph = "false";
  const std::vector<at::Tensor> eager = trained(job, config, shared / "eager");
  for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_TRUE(at::equal(recorded[i], eager[i])) << i;
  if (job.is_main()) torch::save(recorded, (shared / "weights").string());
}

class GraphWorlds : public ::testing::TestWithParam<int> {};

TEST_P(GraphWorlds, TrainCaptchaByRecordedStepsToTheBitsOfOthers) {
  const test::TempDir folder;
  make_set(folder.path(), GetParam());
  run_ranks(
      current_test(), [](Job& job) { train_twice(job, config_of(job.world_size(), env::get(kFolder).value())); },
      ranks_on_gpus(GetParam(), {{kFolder, folder.path().string()}}));
  std::vector<at::Tensor> found;
  torch::load(found, (folder.path() / "weights").string());
  const char* program = "test";
  const Job alone = init(1, &program, {.device = testing::make_believe_gpu()});
  const auto expected = trained(alone, config_of(GetParam(), folder.path()), folder.path() / "alone");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].allclose(expected[i], 1e-4, 1e-5)) << i;
}

TEST(GraphRuns, AccumulateAndShardAsTheyDoWithoutGraphs) {
  const test::TempDir folder;
  make_set(folder.path(), 2);
  run_ranks(
      current_test(),
      [](Job& job) {
        captcha::CaptchaConfig config = config_of(2, env::get(kFolder).value());
        config.accumulate_steps = 2;
        config.optimizer.zero = true;
        config.sync_batchnorm = true;
        config.epochs = 2;
        train_twice(job, config);
      },
      ranks_on_gpus(2, {{kFolder, folder.path().string()}}));
}

INSTANTIATE_TEST_SUITE_P(Of, GraphWorlds, ::testing::Values(2, 3, 4));

/// The waits in `lockstep bench step`, except for its own reading of the loss.
TEST(StepWaits, AreNamedByATimer) {
  const test::TempDir folder;
  make_set(folder.path(), 1);
  captcha::CaptchaConfig config = config_of(1, folder.path());
  config.cuda_graph = "false";
  const char* program = "test";
  const Job job = init(1, &program, {.device = testing::make_believe_gpu()});
  for (const bool is_scaled : {false, true}) {
    config.grad_scaler.enabled = is_scaled ? "true" : "false";
    captcha::CaptchaTask task(config);
    StepTimer timer(job, task, config, task.make_dataset(config.data.train));
    (void)timer.run(3);
    const std::vector<std::string> one = {"aten::_local_scalar_dense"};
    EXPECT_EQ(timer.waits(), is_scaled ? one : std::vector<std::string>{}) << is_scaled;
  }
}

}  // namespace graph_double_test
}  // namespace lockstep
