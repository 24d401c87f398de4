// SPDX-License-Identifier: Apache-2.0
// A Task built from functions, on its own and under the Trainer.
#include "lockstep/train/function_task.h"

#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/base/error.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/trainer.h"
#include "support/alone.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace function_task_test {

using ::testing::HasSubstr;

struct LineNet : torch::nn::Module {
  LineNet() : line(register_module("line", torch::nn::Linear(1, 1))) {}
  at::Tensor forward(const at::Tensor& x) { return line(x); }
  torch::nn::Linear line;
};

// A network that cannot be called with a single tensor.
struct TwoNetImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x, double scale) { return x * scale; }
};
TORCH_MODULE(TwoNet);

// Points on the line y = 2 x + 1.
std::shared_ptr<Dataset> points(std::int64_t count) {
  return make_dataset(count, [count](std::int64_t i) {
    const double x = static_cast<double>(i) / static_cast<double>(count);
    return Sample{at::full({1}, x), at::full({1}, 2 * x + 1)};
  });
}

at::Tensor squared_error(const at::Tensor& output, const Batch& batch) { return at::mse_loss(output, batch.target); }

at::Tensor is_near(const at::Tensor& output, const Batch& batch) { return (output - batch.target).abs().lt(0.5); }

TaskOptions line_options() {
  return {.model = [] { return LineNet(); },
          .dataset = [](const std::string&) { return points(32); },
          .loss = squared_error};
}

Batch batch_of(std::vector<float> data, std::vector<float> target) {
  const auto size = static_cast<std::int64_t>(data.size());
  return {.data = at::tensor(data).view({size, 1}), .target = at::tensor(target).view({size, 1}), .size = size};
}

// F1 is not a mean over samples: it is computed from counts summed over batches and ranks.
class F1Task : public lockstep::FunctionTask {
 public:
  using FunctionTask::FunctionTask;

  at::Tensor count(const at::Tensor& output, const lockstep::Batch& batch) override {
    const at::Tensor said = output.argmax(1).eq(1);
    const at::Tensor is = batch.target.eq(1);
    return at::stack({said.logical_and(is).sum(), said.sum(), is.sum()}).to(at::kDouble);
  }

  std::vector<lockstep::Metric> metrics(const at::Tensor& counts) const override {
    return {{.name = "f1", .value = (2 * counts[0] / (counts[1] + counts[2])).item<double>()}};
  }
};

std::string error_of(TaskOptions options) {
  try {
    const FunctionTask task(std::move(options));
    return "no error";
  } catch (const UsageError& error) {
    return error.message();
  }
}

TEST(FunctionTask, CallsTheNetworkWithTheBatchsData) {
  FunctionTask task(line_options());
  const auto model = task.make_model();
  const Batch batch = batch_of({1, 2}, {3, 5});
  EXPECT_TRUE(task.forward(*model, batch).equal(dynamic_cast<LineNet&>(*model).forward(batch.data)));
  EXPECT_EQ(task.make_dataset("made up")->size(), 32);
}

TEST(FunctionTask, TheModelMayBeAValueAPointerOrAHolder) {
  TaskOptions options = line_options();
  options.model = [] { return std::make_shared<LineNet>(); };
  EXPECT_EQ(FunctionTask(options).make_model()->parameters().size(), 2U);
  options.model = [] { return torch::nn::Sequential(torch::nn::Linear(1, 4), torch::nn::Linear(4, 1)); };
  FunctionTask task(options);
  const auto model = task.make_model();
  EXPECT_EQ(model->parameters().size(), 4U);
  EXPECT_EQ(task.forward(*model, batch_of({1, 2}, {3, 5})).sizes(), (std::vector<std::int64_t>{2, 1}));
}

TEST(FunctionTask, AForwardOfTheUsersTakesTheNetworkAsWhatItIs) {
  TaskOptions options = line_options();
  options.model = [] { return TwoNet(); };
  EXPECT_THAT(error_of(options), HasSubstr("TwoNetImpl has no at::Tensor forward(at::Tensor)"));
  options.forward = [](TwoNetImpl& net, const Batch& batch) { return net.forward(batch.data, 3.0); };
  FunctionTask task(options);
  const auto model = task.make_model();
  EXPECT_TRUE(task.forward(*model, batch_of({1, 2}, {0, 0})).equal(at::tensor({3.0F, 6.0F}).view({2, 1})));
  EXPECT_THROW((void)task.forward(*FunctionTask(line_options()).make_model(), batch_of({1}, {0})), UsageError);
}

TEST(FunctionTask, OutputsReachTheLossInFloat32) {
  TaskOptions options = line_options();
  options.forward = [](torch::nn::Module&, const Batch& batch) { return batch.data.to(at::kBFloat16); };
  FunctionTask task(options);
  EXPECT_EQ(task.forward(*task.make_model(), batch_of({1}, {1})).scalar_type(), at::kFloat);
}

TEST(FunctionTask, MetricsAreMeansOverAllSamplesWhateverTheBatches) {
  TaskOptions options = line_options();
  options.metrics = {{"near", is_near},
                     {"far",
                      [](const at::Tensor& output, const Batch& batch) {
                        return is_near(output, batch).logical_not().to(at::kFloat).mean();
                      },
                      true}};
  FunctionTask task(options);
  const Batch first = batch_of({1, 1, 1}, {1, 1, 3});  // errors 0, 0, 2
  const Batch second = batch_of({1}, {1});
  const auto metrics = task.metrics(task.count(first.data, first) + task.count(second.data, second));
  ASSERT_EQ(metrics.size(), 3U);
  EXPECT_EQ(metrics[0].name, "near");
  EXPECT_DOUBLE_EQ(metrics[0].value, 0.75);
  EXPECT_FALSE(metrics[0].lower_is_better);
  EXPECT_EQ(metrics[1].name, "far");
  EXPECT_NEAR(metrics[1].value, 0.25, 1e-6);
  EXPECT_TRUE(metrics[1].lower_is_better);
  EXPECT_EQ(metrics[2].name, "loss");
  EXPECT_NEAR(metrics[2].value, 1.0, 1e-6);
  EXPECT_TRUE(metrics[2].lower_is_better);
}

TEST(FunctionTask, ASubclassMayCountWhatIsNoMean) {
  F1Task task(line_options());
  const auto batch_of_classes = [](std::vector<std::int64_t> said, std::vector<std::int64_t> is) {
    const at::Tensor output = at::one_hot(at::tensor(said, at::kLong), 2);
    return std::pair(output, Batch{.target = at::tensor(is, at::kLong)});
  };
  const auto [first, first_batch] = batch_of_classes({1, 1, 0}, {1, 0, 1});
  const auto [second, second_batch] = batch_of_classes({0}, {0});
  const auto metrics = task.metrics(task.count(first, first_batch) + task.count(second, second_batch));
  ASSERT_EQ(metrics.size(), 1U);
  EXPECT_DOUBLE_EQ(metrics[0].value, 0.5);  // one hit, one false alarm, one miss
}

TEST(FunctionTask, ItsNameIsTheNetworksClassUnlessItIsGiven) {
  TaskOptions options = line_options();
  EXPECT_EQ(FunctionTask(options).model_name(), "LineNet");
  options.model = [] { return torch::nn::Sequential(torch::nn::Linear(1, 1)); };
  EXPECT_EQ(FunctionTask(options).model_name(), "Sequential");
  options.name = "two lines";
  EXPECT_EQ(FunctionTask(options).model_name(), "two lines");
}

TEST(FunctionTask, WhatIsMissingIsNamed) {
  TaskOptions options = line_options();
  options.model = {};
  EXPECT_EQ(error_of(options), "the task has no model");
  options = line_options();
  options.dataset = nullptr;
  EXPECT_EQ(error_of(options), "the task has no data");
  options = line_options();
  options.loss = nullptr;
  EXPECT_EQ(error_of(options), "the task has no loss");
  options = line_options();
  options.metrics = {{"near", nullptr}};
  EXPECT_EQ(error_of(options), "the metric 'near' of a task needs a name and a function");
  options.metrics = {{"near", is_near}, {"near", is_near}};
  EXPECT_EQ(error_of(options), "the task has two metrics called 'near'");
  options.metrics = {{"loss", is_near}};
  EXPECT_EQ(error_of(options), "the task has two metrics called 'loss'");
}

TEST(FunctionTask, ANullPointerIsAnErrorNotACrash) {
  TaskOptions options = line_options();
  options.model = [] { return std::shared_ptr<LineNet>(); };
  options.dataset = [](const std::string&) { return std::shared_ptr<Dataset>(); };
  FunctionTask task(options);
  EXPECT_THROW((void)task.make_model(), UsageError);
  EXPECT_THROW((void)task.make_dataset("x"), UsageError);
}

TEST(FunctionTask, ALossThatMissesItsTargetSaysSo) {
  const test::TempDir folder;
  TaskOptions options = line_options();
  options.dataset = [](const std::string&) {
    return make_dataset(8, [](std::int64_t) { return Sample{at::full({1}, 1.0)}; });
  };
  FunctionTask task(options);
  TrainConfig config;
  config.max_steps = 1;
  config.data.train = "made up";
  Trainer trainer(testing::alone(), task, config, {.recipe = "line", .run_dir = folder / "run"});
  try {
    (void)trainer.fit();
    FAIL() << "it trained";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the loss failed on samples that have no target"));
  }
}

/// The message and the hint of the UsageError of a run with `options`.
std::string error_of_run(const TaskOptions& options) {
  const test::TempDir folder;
  FunctionTask task(options);
  TrainConfig config;
  config.max_steps = 1;
  config.batch_size = 8;
  config.data.train = "made up";
  config.data.test = "held out";
  try {
    (void)Trainer(testing::alone(), task, config, {.recipe = "line", .run_dir = folder / "run"}).fit();
  } catch (const UsageError& error) {
    return error.message() + " / " + error.hint();
  }
  return "no error";
}

TEST(FunctionTask, ALossForEachSampleIsAnErrorThatNamesItsShape) {
  TaskOptions options = line_options();
  options.loss = [](const at::Tensor& output, const Batch& batch) {
    return (output - batch.target).square().select(1, 0);
  };
  const std::string error = error_of_run(options);
  EXPECT_THAT(error, HasSubstr("the loss term 'loss' has the shape [8], but must be one number"));
  EXPECT_THAT(error, HasSubstr("return the mean over the batch"));
}

TEST(FunctionTask, ATestSetWithoutSamplesIsAnErrorBeforeTheFirstStep) {
  TaskOptions options = line_options();
  options.dataset = [](const std::string& part) { return points(part == "held out" ? 0 : 32); };
  options.loss = [](const at::Tensor&, const Batch&) -> at::Tensor { throw DataError("it trained"); };
  EXPECT_THAT(error_of_run(options), HasSubstr("data.test is held out, which has no samples to evaluate"));
}

TEST(FunctionTask, AParameterThatTheLossDoesNotUseIsAnErrorThatSaysWhatATaskDoes) {
  struct Spare : LineNet {
    Spare() { register_module("spare", torch::nn::Linear(1, 1)); }
  };
  TaskOptions options = line_options();
  options.model = [] { return Spare(); };
  EXPECT_THAT(error_of_run(options), HasSubstr("in a Task add 0 * parameter.sum() to an output"));
}

RANKS_TEST(FunctionTask, TrainsOnTwoRanksWithNothingButFunctions, 2) {
  const test::TempDir folder;
  TaskOptions options = line_options();
  options.metrics = {{"near", is_near}};
  FunctionTask task(options);
  TrainConfig config;
  config.batch_size = 4;
  config.epochs = 20;
  config.optimizer.lr = 0.1;
  config.data.train = config.data.test = "made up";
  const TrainResult result = Trainer(job, task, config, {.recipe = "line", .run_dir = folder / "run"}).fit();
  ASSERT_EQ(result.metrics.size(), 2U);
  EXPECT_EQ(result.metrics[0].value, 1.0) << "every point is near the line";
  EXPECT_LT(result.metrics[1].value, 0.05) << to_text(result.metrics);
}

RANKS_TEST(FunctionTask, WithOtherSettingsOnOneRankIsAnErrorThatNamesThem, 3) {
  const test::TempDir folder;
  FunctionTask task(line_options());
  TrainConfig config;
  config.epochs = job.rank() == 2 ? 3 : 2;
  config.workers = job.rank();
  config.data.train = "made up";
  try {
    (void)Trainer(job, task, config, {.recipe = "line", .run_dir = folder / "run"}).fit();
    FAIL() << "three ranks with different epochs began to train";
  } catch (const UsageError& error) {
    const std::string words = error.what();
    EXPECT_NE(words.find("epochs        2 on ranks 0, 1; 3 on rank 2"), std::string::npos) << words;
    EXPECT_EQ(words.find("workers"), std::string::npos) << words;
  }
}

}  // namespace function_task_test
}  // namespace lockstep
