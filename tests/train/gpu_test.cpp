// SPDX-License-Identifier: Apache-2.0
// The Trainer on a GPU: a batch that is measured.
#include <ATen/core/ivalue.h>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/base/error.h"
#include "lockstep/tensor/device_memory.h"
#include "lockstep/train/trainer.h"
#include "support/gpu.h"
#include "support/temp_dir.h"
#include "train/setup/auto_batch.h"

namespace lockstep {
namespace {

using test::TempDir;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

/// Some 50 MB of activations for each sample, so that a few hundred to a few thousand fill any GPU; 32 MB of weights.
class WideTask final : public Task {
 public:
  static constexpr std::int64_t kSamples = 100'000;
  static constexpr std::int64_t kWidth = std::int64_t{1} << 22;

  std::shared_ptr<Dataset> make_dataset(const std::string&) override {
    return lockstep::make_dataset(kSamples, [](std::int64_t i) {
      return Sample{at::full({1}, static_cast<double>(i) / kSamples), at::ones({1})};
    });
  }
  std::shared_ptr<torch::nn::Module> make_model() override {
    return torch::nn::Linear(torch::nn::LinearOptions(1, kWidth)).ptr();
  }
  at::Tensor forward(torch::nn::Module& model, const Batch& batch) override {
    return dynamic_cast<torch::nn::LinearImpl&>(model).forward(batch.data).tanh();
  }
  at::Tensor loss(const at::Tensor& output, const Batch& batch) override {
    return (output - batch.target).square().mean();
  }
  at::Tensor count(const at::Tensor& output, const Batch&) override {
    return at::full({1}, static_cast<double>(output.size(0)), at::kDouble);
  }
  [[nodiscard]] std::vector<Metric> metrics(const at::Tensor& counts) const override {
    return {{"samples", counts[0].item<double>()}};
  }
  [[nodiscard]] std::string model_name() const override { return "wide"; }
};

Job on_gpu() {
  const std::vector<const char*> words = {"test", "--device", "cuda"};
  return init(static_cast<int>(words.size()), words.data());
}

TrainConfig wide_config() {
  TrainConfig config;
  config.batch_size = AutoInt::automatic();
  config.max_steps = 3;
  config.data.train = "made up";
  return config;
}

/// Trains in a folder of its own. Returns: the batch at the end.
std::int64_t train_wide(TrainConfig config) {
  const TempDir folder;
  WideTask task;
  Trainer(on_gpu(), task, config, {.recipe = "wide", .run_dir = folder / "run"}).fit();
  return config.batch_size;
}

TEST(TrainGpu, TheBatchThatIsFoundTrainsAndOneHalfLargerDoesNot) {
  LOCKSTEP_NEEDS_GPU();
  const std::int64_t found = train_wide(wide_config());
  EXPECT_EQ(found % 8, 0);
  EXPECT_LT(found, train::kLargestAutoBatch);
  TrainConfig larger = wide_config();
  larger.batch_size = found + found / 2;
  EXPECT_THROW(train_wide(larger), ResourceError);
}

TEST(TrainGpu, TheSearchLeavesNoMemoryBehindAndNoPeak) {
  LOCKSTEP_NEEDS_GPU();
  Job job = on_gpu();
  WideTask task;
  TrainConfig config = wide_config();
  config.replicas = config.threads = 1;
  const auto make_net = [&] {
    auto net = task.make_model();
    net->to(job.device());
    return std::make_shared<train::TaskNet>(task, std::move(net));
  };
  EXPECT_GT(train::find_batch_size({job, task, config, task.make_dataset("made up"), make_net}), 8);
  EXPECT_LT(memory_use(job.device()).peak, kGiB);
  EXPECT_LT(*memory_use(job.device()).reserved, kGiB);
}

}  // namespace
}  // namespace lockstep
