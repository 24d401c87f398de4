// SPDX-License-Identifier: Apache-2.0
// accumulate_steps: the gradients of several batches are those of one batch of all their samples, to float32's
// rounding.
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/tensor/random.h"
#include "support/run_ranks.h"
#include "train/step/step_runner.h"

namespace lockstep {
namespace accumulate_test {

using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;

/// No batch norm, whose statistics are those of one batch, and no dropout, whose numbers are drawn for each.
class PlainNet final : public torch::nn::Module {
 public:
  PlainNet() {
    register_module("conv", conv);
    register_module("line", line);
  }
  at::Tensor forward(const at::Tensor& x) { return line(conv(x).relu().flatten(1)); }

 private:
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(3, 8, 3)};
  torch::nn::Linear line{8 * 36, 4};
};

class PlainTask final : public Task {
 public:
  std::shared_ptr<Dataset> make_dataset(const std::string&) override {
    return lockstep::make_dataset(64, [](std::int64_t i) {
      auto generator = make_generator(static_cast<std::uint64_t>(i));
      return Sample{at::rand({3, 8, 8}, generator), at::rand({4}, generator)};
    });
  }
  std::shared_ptr<torch::nn::Module> make_model() override { return std::make_shared<PlainNet>(); }
  at::Tensor forward(torch::nn::Module& model, const Batch& batch) override {
    return dynamic_cast<PlainNet&>(model).forward(batch.data);
  }
  at::Tensor loss(const at::Tensor& output, const Batch& batch) override { return at::mse_loss(output, batch.target); }
  at::Tensor count(const at::Tensor&, const Batch&) override { return at::zeros({1}, at::kDouble); }
  [[nodiscard]] std::vector<Metric> metrics(const at::Tensor&) const override { return {}; }
  [[nodiscard]] std::string model_name() const override { return "plain"; }
};

/// The gradients and the loss of the first step, eight samples for each of two replicas.
std::vector<at::Tensor> first_step(const Job& job, std::int64_t accumulated) {
  PlainTask task;
  TrainConfig config;
  config.replicas = 2;
  config.threads = 1;
  config.workers = 0;
  config.batch_size = 8 / accumulated;
  config.accumulate_steps = accumulated;
  train::StepRunner steps(job, task, config);
  steps.data().open(task.make_dataset(""));
  steps.build(steps.make_net());
  steps.data().start_epoch(0, 0);
  std::vector<at::Tensor> found;
  for (const at::Tensor& loss : steps.compute_gradients(accumulated)) found.push_back(loss.clone());
  for (const auto& item : named_parameters_of(steps.model())) found.push_back(item.second.grad().clone());
  return found;
}

class AccumulateWorlds : public ::testing::TestWithParam<int> {};

TEST_P(AccumulateWorlds, SeveralBatchesHaveTheGradientsOfOneBatchOfTheirSamples) {
  run_ranks(current_test(),
            [](Job& job) {
              const std::vector<at::Tensor> whole = first_step(job, 1);
              for (const std::int64_t accumulated : {2, 4}) {
                const std::vector<at::Tensor> parts = first_step(job, accumulated);
                ASSERT_EQ(parts.size(), whole.size());
                for (std::size_t i = 0; i < whole.size(); ++i) {
                  const double size = whole[i].abs().max().item<double>();
                  ASSERT_GT(size, 0);
                  EXPECT_LE((parts[i] - whole[i]).abs().max().item<double>(), 1e-6 * size)
                      << accumulated << " batches, tensor " << i;
                }
              }
            },
            {.world = GetParam()});
}
INSTANTIATE_TEST_SUITE_P(OneAndTwo, AccumulateWorlds, ::testing::Values(1, 2));

}  // namespace accumulate_test
}  // namespace lockstep
