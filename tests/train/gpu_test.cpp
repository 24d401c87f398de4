// SPDX-License-Identifier: Apache-2.0
// The Trainer and StepGraph on a GPU.
#include <ATen/core/ivalue.h>  // before any other torch header

#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/tensor/device_memory.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/step_graph.h"
#include "lockstep/train/trainer.h"
#include "support/gpu.h"
#include "support/temp_dir.h"
#include "train/setup/auto_batch.h"

namespace lockstep {
namespace gpu_test {

using test::TempDir;
using ::testing::HasSubstr;

// The Trainer on a GPU: finding the batch size by measurement.

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

/// A task with 32 MB of weights and about 50 MB of activations per sample: a few hundred or thousand samples fill any
/// GPU.
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

/// Trains in a separate folder. Returns the final batch size.
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

// StepGraph on a real GPU.

/// A network with batch-norm statistics and dropout, its optimizer, and a step that can read back its loss.
class Side {
 public:
  explicit Side(int reads_back_from = 1000) : reads_back_from_(reads_back_from) {
    seed_all(3);
    net_->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3)));
    net_->push_back(torch::nn::BatchNorm2d(8));
    net_->push_back(torch::nn::ReLU());
    net_->push_back(torch::nn::Dropout(0.5));
    net_->to(c10::kCUDA);
    optimizer_.emplace(net_, AdamWOptions{.lr = 1e-2});
  }

  /// Trains with a scaled loss, two batches per step.
  void train_scaled_in_halves(bool recorded) {
    GradScaler scaler({.init_scale = 1024, .growth_interval = 2});
    scaler_ = &scaler;
    StepGraphOptions options;
    if (!recorded) options.make = {};
    StepGraph graph(
        named_parameters_of(net_), [this](const Batch& batch) { return compute(batch); }, options);
    for (int i = 0; i < 20; ++i) {
      seed_all(50 + static_cast<std::uint64_t>(i));
      Batch batch;
      batch.data = at::rand({5, 3, 12, 12}).to(c10::kCUDA);
      if (i == 13) batch.data.fill_(std::numeric_limits<float>::infinity());
      batch.size = 5;
      (void)graph.run(batch, static_cast<std::uint64_t>(i));
      if (i % 2 == 0) continue;
      (void)scaler.step(*optimizer_);
      scaler.update();
      optimizer_->zero_grad();
    }
    recorded_ = graph.recorded();
    fallback_ = graph.fallback();
    scale_ = scaler.get_scale();
    scaler_ = nullptr;
  }

  std::vector<float> train(bool recorded, int steps, bool automatic = false) {
    StepGraphOptions options;
    if (!recorded) options.make = {};
    options.automatic = automatic;
    StepGraph graph(
        named_parameters_of(net_), [this](const Batch& batch) { return compute(batch); }, options);
    std::vector<float> losses;
    for (int i = 0; i < steps; ++i) {
      seed_all(50 + static_cast<std::uint64_t>(i));
      Batch batch;
      batch.data = at::rand({5, 3, 12, 12}).to(c10::kCUDA);
      batch.size = 5;
      optimizer_->set_lr(1e-2 / (1 + i));
      losses.push_back(graph.run(batch, static_cast<std::uint64_t>(i)).item<float>());
      optimizer_->step();
      optimizer_->zero_grad();
    }
    recorded_ = graph.recorded();
    fallback_ = graph.fallback();
    return losses;
  }

  [[nodiscard]] bool recorded() const { return recorded_; }
  [[nodiscard]] const std::string& fallback() const { return fallback_; }
  [[nodiscard]] double scale() const { return scale_; }
  [[nodiscard]] std::vector<at::Tensor> weights() const { return net_->parameters(); }
  [[nodiscard]] std::vector<at::Tensor> state() const {
    std::vector<at::Tensor> all = net_->parameters();
    const std::vector<at::Tensor> buffers = net_->buffers();
    all.insert(all.end(), buffers.begin(), buffers.end());
    return all;
  }

 private:
  at::Tensor compute(const Batch& batch) {
    const at::Tensor loss = net_->forward(batch.data).pow(2).mean();
    if (calls_++ >= reads_back_from_) (void)loss.item<float>();
    (scaler_ == nullptr ? loss : scaler_->scale(loss)).backward();
    return loss.detach();
  }

  int reads_back_from_;  ///< number of calls to compute() before the first one that reads back
  int calls_ = 0;
  torch::nn::Sequential net_;
  std::optional<AdamW> optimizer_;
  GradScaler* scaler_ = nullptr;  ///< null if the loss is not scaled
  double scale_ = 0;              ///< scale at the end
  bool recorded_ = false;
  std::string fallback_;
};

void expect_alike(const Side& one, const Side& other) {
  const auto a = one.state();
  const auto b = other.state();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::allclose(a[i], b[i], 1e-4, 1e-5)) << "tensor " << i;
}

TEST(StepGraphGpu, ReplayedStepsTrainAsThoseThatAreComputedWithDropoutStatisticsAndALearningRateThatChanges) {
  LOCKSTEP_NEEDS_GPU();
  Side plain;
  Side recorded;
  const std::vector<float> expected = plain.train(false, 10);
  const std::vector<float> found = recorded.train(true, 10);
  EXPECT_TRUE(recorded.recorded()) << recorded.fallback();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << "step " << i;
  expect_alike(plain, recorded);
}

/// The statistics of the overflowing step are NaN with and without replays.
TEST(StepGraphGpu, ReplayedBatchesOfOneStepAddUpUnderAScaleThatChanges) {
  LOCKSTEP_NEEDS_GPU();
  Side plain;
  Side recorded;
  plain.train_scaled_in_halves(false);
  recorded.train_scaled_in_halves(true);
  EXPECT_TRUE(recorded.recorded()) << recorded.fallback();
  EXPECT_EQ(recorded.scale(), plain.scale());
  EXPECT_GT(recorded.scale(), 1024);
  for (std::size_t i = 0; i < plain.weights().size(); ++i) {
    EXPECT_TRUE(at::allclose(recorded.weights()[i], plain.weights()[i], 1e-4, 1e-5)) << "tensor " << i;
  }
}

TEST(StepGraphGpu, AStepThatReadsANumberBackEndsTheRunAndSaysWhy) {
  LOCKSTEP_NEEDS_GPU();
  Side reading(0);
  try {
    (void)reading.train(true, 8);
    ADD_FAILURE() << "it was recorded";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), HasSubstr("cannot be recorded"));
  }
}

TEST(StepGraphGpu, AnAutomaticStepThatReadsANumberBackIsNotRecorded) {
  LOCKSTEP_NEEDS_GPU();
  Side plain(0);
  Side reading(0);
  (void)plain.train(false, 8);
  (void)reading.train(true, 8, /*automatic=*/true);
  EXPECT_FALSE(reading.recorded());
  EXPECT_EQ(reading.fallback(), "aten::_local_scalar_dense makes the host wait for the GPU");
  expect_alike(plain, reading);
}

TEST(StepGraphGpu, AnAutomaticRecordingThatFailsLeavesTheRunAsItWas) {
  LOCKSTEP_NEEDS_GPU();
  Side plain(3);
  Side reading(3);  // reads back only after the recording
  const std::vector<float> expected = plain.train(false, 10);
  const std::vector<float> found = reading.train(true, 10, /*automatic=*/true);
  EXPECT_FALSE(reading.recorded());
  EXPECT_NE(reading.fallback(), "");
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << "step " << i;
  expect_alike(plain, reading);
}

TEST(StepGraphGpu, AfterARecordingThatFailedAnotherOneSucceeds) {
  LOCKSTEP_NEEDS_GPU();
  Side failing(3);
  (void)failing.train(true, 6, /*automatic=*/true);
  Side plain;
  Side recorded;
  (void)plain.train(false, 10);
  (void)recorded.train(true, 10, /*automatic=*/true);
  EXPECT_TRUE(recorded.recorded()) << recorded.fallback();
  expect_alike(plain, recorded);
}

/// A step whose matrix products use cuBLAS's workspace, because they sum over many rows.
class ProductStep {
 public:
  ProductStep() { net_->to(c10::kCUDA); }

  /// Runs a step on the same numbers for the same number of rows. Returns the gradient of the weights.
  at::Tensor run(std::int64_t rows) {
    seed_all(7);
    Batch batch;
    batch.data = at::rand({rows, kWidth}).to(c10::kCUDA);
    batch.size = rows;
    net_->weight.mutable_grad() = at::Tensor();
    (void)steps_.run(batch, 1);
    return net_->weight.grad().clone();
  }
  void run_times(std::int64_t rows, int times) {
    for (int i = 0; i < times; ++i) (void)run(rows);
  }
  [[nodiscard]] const StepGraph& steps() const { return steps_; }

 private:
  static constexpr std::int64_t kWidth = 640;

  torch::nn::Linear net_{torch::nn::LinearOptions(kWidth, kWidth).bias(false)};
  StepGraph steps_{named_parameters_of(net_), [this](const Batch& batch) {
                     const at::Tensor loss = net_->forward(batch.data).pow(2).mean();
                     loss.backward();
                     return loss.detach();
                   }};
};

TEST(StepGraphGpu, RecordingsReplayAfterFurtherShapesAndMemoryThatIsGivenBack) {
  LOCKSTEP_NEEDS_GPU();
  constexpr std::int64_t kRows = 1024;
  ProductStep step;
  const at::Tensor expected = step.run(10 * kRows);
  for (std::int64_t shape = 1; shape <= 18; ++shape) step.run_times(shape * kRows, 4);
  EXPECT_TRUE(step.steps().has_left_out());
  tensor::forget_memory(0);
  EXPECT_TRUE(at::allclose(step.run(10 * kRows), expected, 1e-4, 1e-6));
}

TEST(StepGraphGpu, ARecordingReplaysAfterAnotherStepGraphHasEnded) {
  LOCKSTEP_NEEDS_GPU();
  constexpr std::int64_t kRows = 32768;
  ProductStep lasting;
  const at::Tensor expected = lasting.run(kRows);
  lasting.run_times(kRows, 4);
  ASSERT_TRUE(lasting.steps().recorded());
  ProductStep().run_times(kRows, 5);
  tensor::forget_memory(0);
  EXPECT_TRUE(at::allclose(lasting.run(kRows), expected, 1e-4, 1e-6));
}

}  // namespace gpu_test
}  // namespace lockstep
