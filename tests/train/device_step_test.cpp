// SPDX-License-Identifier: Apache-2.0
// Errors that a run on a GPU detects one step later than a run on a CPU. The GPU is a fake one.
#include "support/host_waits.h"

#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/function_task.h"
#include "lockstep/train/trainer.h"
#include "support/temp_dir.h"
#include "support/waits_of_run.h"

namespace lockstep {
namespace device_step_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct LineNet : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return line(x); }
  torch::nn::Linear line = register_module("line", torch::nn::Linear(1, 1));
};

/// The gradient at step `bad` is non-finite, but the loss is finite.
class RootTask : public Task {
 public:
  explicit RootTask(std::int64_t bad) : bad_(bad) {}
  std::shared_ptr<Dataset> make_dataset(const std::string& /*folder*/) override {
    return lockstep::make_dataset(40, [](std::int64_t) { return Sample{at::full({1}, 1.0), at::full({1}, 2.0)}; });
  }
  std::shared_ptr<torch::nn::Module> make_model() override { return std::make_shared<LineNet>(); }
  at::Tensor forward(torch::nn::Module& model, const Batch& batch) override {
    return dynamic_cast<LineNet&>(model).forward(batch.data);
  }
  at::Tensor loss(const at::Tensor& output, const Batch& batch) override {
    return ++steps_ == bad_ ? (output * 0).sqrt().mean() : at::mse_loss(output, batch.target);
  }
  at::Tensor count(const at::Tensor& output, const Batch& /*batch*/) override { return output.sum().to(at::kDouble); }
  [[nodiscard]] std::vector<Metric> metrics(const at::Tensor& /*counts*/) const override { return {{"nothing", 0}}; }
  [[nodiscard]] std::string model_name() const override { return "line"; }

 private:
  std::int64_t bad_;
  std::int64_t steps_ = 0;
};

class LineTask final : public RootTask {
 public:
  explicit LineTask(const TrainConfig& /*config*/) : RootTask(0) {}
};

TrainConfig clipped_config() {
  TrainConfig config;
  config.replicas = 1;
  config.batch_size = 2;
  config.epochs = 1;
  config.clip_norm = 1;
  config.data.train = config.data.test = "made up";
  return config;
}

struct Ended {
  std::string error = "no error";
  std::int64_t saved = 0;  ///< the last saved step
};

Ended run_with(std::int64_t bad_step, TrainConfig config) {
  const test::TempDir folder;
  const char* program = "test";
  const Job job = init(1, &program, {.device = testing::make_believe_gpu()});
  RootTask task(bad_step);
  Ended ended;
  try {
    (void)Trainer(job, task, config, {.recipe = "line", .run_dir = folder / "run"}).fit();
  } catch (const DataError& error) {
    ended.error = error.message();
  }
  for (std::int64_t step = 1; step <= 20; ++step) {
    if (std::filesystem::exists(folder / "run" / "checkpoints" / fmt::format("step-{:08}", step))) ended.saved = step;
  }
  return ended;
}

TEST(DeviceStep, AGradientThatIsNotFiniteIsNamedWithItsStep) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  EXPECT_THAT(run_with(7, clipped_config()).error,
              HasSubstr("step 7: the gradient is not finite: line.weight and 1 more of 2 parameters"));
}

TEST(DeviceStep, ThatOfTheLastStepToo) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  EXPECT_THAT(run_with(20, clipped_config()).error, HasSubstr("step 20: the gradient is not finite"));
}

TEST(DeviceStep, WeightsOfSuchAStepAreNotSaved) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  TrainConfig config = clipped_config();
  config.checkpoint = {.every_steps = 1, .keep_last = 100, .async = false, .require_finite = false};
  const Ended ended = run_with(7, config);
  EXPECT_THAT(ended.error, HasSubstr("step 7: the gradient is not finite"));
  EXPECT_EQ(ended.saved, 6);
}

/// The host must know whether the gradients are finite before it can enqueue the rest of the step.
TEST(DeviceStep, AScaledLossCostsOneWaitAStep) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  TrainConfig config = clipped_config();
  config.grad_scaler.enabled = "true";
  config.data.train = config.data.test = "made up";
  EXPECT_EQ(testing::waits_of_run<LineTask>(config),
            std::vector<std::string>(testing::WaitCounter::kSteps, "aten::_local_scalar_dense"));
  config.grad_scaler.enabled = "false";
  EXPECT_THAT(testing::waits_of_run<LineTask>(config), IsEmpty());
}

/// The loader's workers copy the batches from page-locked memory. The host reads the results after all batches.
TEST(DeviceStep, AnEvaluationWaitsOnceAtItsEnd) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  const char* program = "test";
  const Job job = init(1, &program, {.device = testing::make_believe_gpu()});
  RootTask task(0);
  const auto model = task.make_model();
  model->to(job.device());
  const auto samples = make_dataset(40, [](std::int64_t) {
    return Sample{at::full({1 << 15, 1}, 1.0), at::full({1}, 2.0)};
  });
  const auto waits = [&](EvaluateOptions options) {
    options.batch_size = 4;
    const testing::HostWaits counted;
    (void)evaluate(job, task, *model, samples, options);
    return testing::HostWaits::found();
  };
  EXPECT_EQ(waits({}), std::vector<std::string>{"copy to the host"});
  EXPECT_THAT(waits({.pin_memory = false}), SizeIs(11)) << "10 batches, and the end";
}

TEST(DeviceStep, CheckedGradientsAreLookedAtInTheirStep) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  TrainConfig config = clipped_config();
  config.check_gradients = true;
  EXPECT_THAT(run_with(7, config).error,
              HasSubstr("step 7: the gradient is not finite: line.weight (1 of 1 elements) and 1 more"));
}

}  // namespace device_step_test
}  // namespace lockstep
