// SPDX-License-Identifier: Apache-2.0
// StepGraph on a real GPU.
#include <ATen/core/ivalue.h>  // before any other torch header

#include <ATen/ops/allclose.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>

#include "lockstep/base/error.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/step_graph.h"
#include "support/gpu.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

/// A network with statistics and dropout, its optimizer, and a step that may read its loss back.
class Side {
 public:
  explicit Side(bool reads_back = false) : reads_back_(reads_back) {
    seed_all(3);
    net_->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3)));
    net_->push_back(torch::nn::BatchNorm2d(8));
    net_->push_back(torch::nn::ReLU());
    net_->push_back(torch::nn::Dropout(0.5));
    net_->to(c10::kCUDA);
    optimizer_.emplace(net_, AdamWOptions{.lr = 1e-2});
  }

  std::vector<float> train(bool recorded, int steps) {
    StepGraph graph(
        named_parameters_of(net_), [this](const Batch& batch) { return compute(batch); },
        recorded ? tensor::make_device_graph() : nullptr);
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
  [[nodiscard]] std::vector<at::Tensor> state() const {
    std::vector<at::Tensor> all = net_->parameters();
    const std::vector<at::Tensor> buffers = net_->buffers();
    all.insert(all.end(), buffers.begin(), buffers.end());
    return all;
  }

 private:
  at::Tensor compute(const Batch& batch) {
    const at::Tensor loss = net_->forward(batch.data).pow(2).mean();
    if (reads_back_) (void)loss.item<float>();
    loss.backward();
    return loss.detach();
  }

  bool reads_back_;
  torch::nn::Sequential net_;
  std::optional<AdamW> optimizer_;
  bool recorded_ = false;
  std::string fallback_;
};

TEST(StepGraphGpu, ReplayedStepsTrainAsThoseThatAreComputedWithDropoutStatisticsAndALearningRateThatChanges) {
  LOCKSTEP_NEEDS_GPU();
  Side plain;
  Side recorded;
  const std::vector<float> expected = plain.train(false, 10);
  const std::vector<float> found = recorded.train(true, 10);
  EXPECT_TRUE(recorded.recorded()) << recorded.fallback();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << "step " << i;
  const auto a = plain.state();
  const auto b = recorded.state();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::allclose(a[i], b[i], 1e-4, 1e-5)) << "tensor " << i;
}

TEST(StepGraphGpu, AStepThatReadsANumberBackEndsTheRunAndSaysWhy) {
  LOCKSTEP_NEEDS_GPU();
  Side reading(true);
  try {
    (void)reading.train(true, 8);
    ADD_FAILURE() << "it was recorded";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), HasSubstr("cannot be recorded"));
  }
}

}  // namespace
}  // namespace lockstep
