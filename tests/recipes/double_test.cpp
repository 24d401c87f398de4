// SPDX-License-Identifier: Apache-2.0
// The Trainer with a recipe on several make-believe GPUs: the weights are those of one process with one of them.
#include "support/host_waits.h"
// then what needs torch
#include <gmock/gmock.h>
#include <torch/serialize.h>

#include <filesystem>

#include "captcha/config.h"
#include "captcha/synthetic/generate.h"
#include "captcha/task.h"
#include "lockstep/base/env.h"
#include "lockstep/train/trainer.h"
#include "support/double/ranks.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace double_test {

using testing::current_test;
using testing::found_races;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ranks_on_gpus;
using testing::run_ranks;
namespace fs = std::filesystem;

/// Keeps the network that it makes.
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

/// Three steps of twelve replicas on the pictures in `folder`.
std::vector<at::Tensor> trained(const Job& job, const fs::path& folder, const std::string& run) {
  captcha::CaptchaConfig config;
  config.labels.charset = "0123456789";
  config.labels.width = 48;
  config.labels.height = 32;
  config.data.train = config.data.test = (folder / "set").string();
  config.replicas = 12;
  config.batch_size = 2;
  config.epochs = 1;
  config.clip_norm = 1;
  config.amp = "none";
  config.optimizer.type = "sgd";
  config.optimizer.lr = 0.1;
  config.model_type = "conv3";
  KeptTask task(config);
  (void)Trainer(job, task, config, {.recipe = "captcha", .run_dir = folder / run}).fit();
  return task.weights();
}

constexpr const char* kFolder = "LOCKSTEP_TEST_FOLDER";

class DoubleWorlds : public ::testing::TestWithParam<int> {};

TEST_P(DoubleWorlds, TrainCaptchaAsOneProcess) {
  const test::TempDir folder;
  captcha::generate_captchas(
      {.out = folder / "set", .count = 72, .seed = 1, .charset = "0123456789", .width = 48, .height = 32});
  run_ranks(
      current_test(),
      [](Job& job) {
        EXPECT_THAT(job.backend(), HasSubstr("nccl"));
        const fs::path shared = env::get(kFolder).value();
        const std::vector<at::Tensor> weights = trained(job, shared, "ranks");
        if (job.is_main()) torch::save(weights, (shared / "weights").string());
        EXPECT_THAT(found_races(), IsEmpty());
      },
      ranks_on_gpus(GetParam(), {{kFolder, folder.path().string()}, {"LOCKSTEP_DOUBLE_DELAY_US", "200"}}));
  std::vector<at::Tensor> found;
  torch::load(found, (folder / "weights").string());
  const char* program = "test";
  const auto expected = trained(init(1, &program, {.device = testing::make_believe_gpu()}), folder.path(), "alone");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].allclose(expected[i], 1e-4, 1e-5)) << i;
}

INSTANTIATE_TEST_SUITE_P(Of, DoubleWorlds, ::testing::Values(2, 3, 4));

}  // namespace double_test
}  // namespace lockstep
