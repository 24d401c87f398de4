// SPDX-License-Identifier: Apache-2.0
// Recorded steps.
#include <ATen/ops/dropout.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <any>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/step_graph.h"
#include "train/settings/graph_choice.h"

namespace lockstep {
namespace step_graph_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// StepGraph with a fake recording on the CPU: each replay runs the work, as a GPU's graph would.

/// Counts the calls to the fake recording.
struct Calls {
  bool entered = false;              ///< true while the recorded stream is the current stream
  std::vector<bool> on_stream = {};  ///< one entry per computed step: true if the recorded stream was current
  int records = 0;
  int replays = 0;
  int destroyed = 0;
  std::vector<std::string> waits = {};  ///< the operators of the next steps that make the host wait
};

std::vector<at::Tensor> gradients_of(const NamedTensors& parameters) {
  std::vector<at::Tensor> found;
  for (const auto& item : parameters) found.push_back(item.second.grad());
  return found;
}

void set_gradients(const NamedTensors& parameters, const std::vector<at::Tensor>& gradients) {
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].second.mutable_grad() = gradients[i];
}

/// Restores the values of these tensors when it is destroyed, because recorded work must not take effect.
class KeptValues {
 public:
  explicit KeptValues(const std::vector<at::Tensor>& tensors) : tensors_(tensors) {
    for (const at::Tensor& one : tensors_) values_.push_back(one.defined() ? one.clone() : one);
  }
  ~KeptValues() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (values_[i].defined()) tensors_[i].copy_(values_[i]);
    }
  }
  KeptValues(const KeptValues&) = delete;
  KeptValues& operator=(const KeptValues&) = delete;

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> values_;
};

/// A fake graph. As on a GPU, a replay reads and writes the memory of the recording.
class MakeBelieveGraph final : public tensor::DeviceGraph {
 public:
  MakeBelieveGraph(Calls& calls, NamedTensors parameters) : calls_(calls), parameters_(std::move(parameters)) {}
  ~MakeBelieveGraph() override { ++calls_.destroyed; }
  MakeBelieveGraph(const MakeBelieveGraph&) = delete;
  MakeBelieveGraph& operator=(const MakeBelieveGraph&) = delete;

  std::shared_ptr<void> enter() override {
    calls_.entered = true;
    return {&calls_, [](Calls* calls) { calls->entered = false; }};
  }
  void record(const std::function<void()>& work) override {
    ++calls_.records;
    work_ = work;
    before_ = gradients_of(parameters_);
    const KeptValues kept(before_);
    work();
    gradients_ = gradients_of(parameters_);
    for (const at::Tensor& gradient : gradients_) {
      if (gradient.defined()) gradient.zero_();
    }
  }
  std::vector<std::string> waits(const std::function<void()>& work) override {
    work();
    return calls_.waits;
  }
  void replay() override {
    ++calls_.replays;
    set_gradients(parameters_, before_);
    work_();
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      at::Tensor& found = parameters_[i].second.mutable_grad();
      if (found.defined() && !found.is_same(gradients_[i])) gradients_[i].copy_(found);
      found = at::Tensor();
    }
  }

 private:
  Calls& calls_;
  NamedTensors parameters_;
  std::function<void()> work_;
  std::vector<at::Tensor> before_;
  std::vector<at::Tensor> gradients_;
};

class BrokenGraph final : public tensor::DeviceGraph {
 public:
  void record(const std::function<void()>& work) override {
    work();
    throw std::runtime_error("operation not permitted when stream is capturing\nand more lines");
  }
  void replay() override { throw std::logic_error("nothing was recorded"); }
};

/// A network with dropout, its weights and its step. Batches of 3 use a second layer as well.
struct Small {
  torch::nn::Linear net{6, 2};
  torch::nn::Linear more{6, 2};
  double share = 1;              ///< a batch's share of its step
  GradScaler* scaler = nullptr;  ///< null if the loss is not scaled

  Small() : loss_(at::zeros({})) {
    const at::NoGradGuard no_grad;
    for (const auto& item : parameters()) at::Tensor(item.second).fill_(0.25);
  }
  [[nodiscard]] NamedTensors parameters() {
    NamedTensors all = named_parameters_of(net);
    for (const auto& [name, value] : named_parameters_of(more)) all.emplace_back("more." + name, value);
    return all;
  }
  [[nodiscard]] StepGraph::Compute compute() {
    return [this](const Batch& batch) {
      at::Tensor loss = at::dropout(net(batch.data), 0.5, true).pow(2).sum() * share;
      if (batch.size == 3) loss = loss + more(batch.data).pow(2).sum() * share;
      (scaler == nullptr ? loss : scaler->scale(loss)).backward();
      return loss_.copy_(loss.detach());  // a recording's loss is always in this tensor
    };
  }
  void update() {
    const at::NoGradGuard no_grad;
    for (const auto& item : parameters()) {
      at::Tensor parameter = item.second;
      if (parameter.grad().defined()) parameter.sub_(parameter.grad(), 0.01);
      parameter.mutable_grad() = at::Tensor();
    }
  }
  [[nodiscard]] bool has_weights_of(Small& other) {
    return at::equal(net->weight, other.net->weight) && at::equal(more->weight, other.more->weight);
  }

 private:
  at::Tensor loss_;
};

StepGraphOptions make_believe(Calls& calls, Small& small) {
  StepGraphOptions options;
  options.make = [&] { return std::make_unique<MakeBelieveGraph>(calls, small.parameters()); };
  return options;
}

Batch batch_of(std::int64_t size, std::uint64_t seed) {
  seed_all(seed);
  Batch batch;
  batch.data = at::rand({size, 6});
  batch.size = size;
  return batch;
}

/// Trains on batches of these sizes; returns each step's loss.
std::vector<double> train(Small& small, StepGraph& steps, const std::vector<std::int64_t>& sizes) {
  std::vector<double> losses;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    losses.push_back(steps.run(batch_of(sizes[i], i), 100 + i).item<double>());
    small.update();
  }
  return losses;
}

const std::vector<std::int64_t> kSizes = {4, 4, 4, 4, 4, 3, 4, 4};

TEST(StepGraph, ARecordedRunHasTheBitsOfOneThatIsNot) {
  Calls calls;
  Small plain;
  Small recorded;
  StepGraph plainly(plain.parameters(), plain.compute(), {.make = {}});
  StepGraph graph(recorded.parameters(), recorded.compute(), make_believe(calls, recorded));
  EXPECT_EQ(train(plain, plainly, kSizes), train(recorded, graph, kSizes));
  EXPECT_TRUE(at::equal(plain.net->weight, recorded.net->weight));
  EXPECT_EQ(calls.records, 1);
}

/// Runs steps of `batches` batches of these sizes each. Returns the losses.
std::vector<double> accumulate(Small& small, StepGraph& steps, const std::vector<std::int64_t>& sizes,
                               std::size_t batches) {
  small.share = 1.0 / static_cast<double>(batches);
  std::vector<double> losses;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    losses.push_back(steps.run(batch_of(sizes[i], i), 100 + i).item<double>());
    if ((i + 1) % batches == 0) small.update();
  }
  return losses;
}

TEST(StepGraph, ARecordingAddsToTheGradientsOfTheStepsEarlierBatches) {
  Calls calls;
  Small plain;
  Small recorded;
  StepGraph plainly(plain.parameters(), plain.compute(), {.make = {}});
  StepGraph graph(recorded.parameters(), recorded.compute(), make_believe(calls, recorded));
  const std::vector<std::int64_t> sizes(18, 4);
  EXPECT_EQ(accumulate(plain, plainly, sizes, 3), accumulate(recorded, graph, sizes, 3));
  EXPECT_TRUE(recorded.has_weights_of(plain));
  EXPECT_EQ(calls.records, 2) << "one sets the gradients, one adds to them";
  EXPECT_EQ(calls.replays, 18 - 4);
}

TEST(StepGraph, ABatchAddsToGradientsOfAnotherShapeAndOfLayersThatItDoesNotUse) {
  Calls calls;
  Small plain;
  Small recorded;
  StepGraph plainly(plain.parameters(), plain.compute(), {.make = {}});
  StepGraph graph(recorded.parameters(), recorded.compute(), make_believe(calls, recorded));
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < 8; ++i) sizes.insert(sizes.end(), {4, 3, 3, 4, 4, 4, 5, 4, 3, 3});
  EXPECT_EQ(accumulate(plain, plainly, sizes, 2), accumulate(recorded, graph, sizes, 2));
  EXPECT_TRUE(recorded.has_weights_of(plain));
  EXPECT_GT(calls.replays, 40);
}

/// Trains with a scaled loss; one step overflows and is skipped.
void train_scaled(Small& small, StepGraph& steps) {
  GradScaler scaler({.init_scale = 4, .growth_interval = 2});
  SGD optimizer(small.parameters(), {.lr = 0.01});
  small.scaler = &scaler;
  for (std::size_t i = 0; i < 16; ++i) {
    const Batch batch = batch_of(4, i);
    if (i == 11) batch.data.fill_(std::numeric_limits<float>::infinity());
    (void)steps.run(batch, 100 + i);
    if (i % 2 == 0) continue;
    (void)scaler.step(optimizer);
    scaler.update();
    optimizer.zero_grad();
  }
  small.scaler = nullptr;
  EXPECT_EQ(scaler.get_scale(), 16) << "twice as large after steps 2 and 4, half after 6, twice as large after 8";
}

TEST(StepGraph, AScaledLossIsRecordedWithAScaleThatChanges) {
  Calls calls;
  Small plain;
  Small recorded;
  StepGraph plainly(plain.parameters(), plain.compute(), {.make = {}});
  StepGraph graph(recorded.parameters(), recorded.compute(), make_believe(calls, recorded));
  train_scaled(plain, plainly);
  train_scaled(recorded, graph);
  EXPECT_TRUE(recorded.has_weights_of(plain));
  EXPECT_EQ(calls.replays, 16 - 4);
}

TEST(StepGraph, TheFirstStepsAreNotRecordedAndABatchOfAnotherShapeIsNotReplayed) {
  Calls calls;
  Small small;
  StepGraph graph(small.parameters(), small.compute(), make_believe(calls, small));
  train(small, graph, {4, 4, 4});
  EXPECT_FALSE(graph.recorded());
  train(small, graph, {4, 3, 4});
  EXPECT_TRUE(graph.recorded());
  EXPECT_EQ(calls.replays, 2);
}

TEST(StepGraph, ALossOutlivesTheNextReplay) {
  Calls calls;
  Small small;
  StepGraph graph(small.parameters(), small.compute(), make_believe(calls, small));
  train(small, graph, {4, 4, 4, 4});
  const at::Tensor loss = graph.run(batch_of(4, 1), 1);
  const auto value = loss.item<double>();
  small.update();
  (void)graph.run(batch_of(4, 2), 2);
  EXPECT_EQ(loss.item<double>(), value);
}

TEST(StepGraph, ABatchWithMoreThanTensorsIsComputedAsEver) {
  Calls calls;
  Small small;
  StepGraph graph(small.parameters(), small.compute(), make_believe(calls, small));
  train(small, graph, {4, 4, 4, 4});
  Batch batch = batch_of(4, 9);
  batch.extra = std::any(3);
  (void)graph.run(batch, 9);
  EXPECT_EQ(calls.replays, 1);
}

TEST(StepGraph, AStepThatCannotBeRecordedEndsTheRunWithTheReason) {
  Small broken;
  StepGraph graph(broken.parameters(), broken.compute(), {.make = [] { return std::make_unique<BrokenGraph>(); }});
  train(broken, graph, {4, 4, 4});
  try {
    (void)graph.run(batch_of(4, 1), 1);
    ADD_FAILURE() << "a step after a broken recording";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.message(),
              "the step cannot be recorded as a CUDA graph: operation not permitted when stream is capturing");
    EXPECT_THAT(error.hint(), HasSubstr("cuda_graph"));
  }
}

TEST(StepGraph, WhatIsComputedBesideARecordingGoesToItsStream) {
  Calls calls;
  Small small;
  const StepGraph::Compute plain = small.compute();
  const auto compute = [&](const Batch& batch) {
    calls.on_stream.push_back(calls.entered);
    return plain(batch);
  };
  StepGraph graph(small.parameters(), compute, make_believe(calls, small));
  train(small, graph, {4, 4, 3});
  EXPECT_EQ(calls.on_stream, (std::vector<bool>{true, true, true}));
  EXPECT_FALSE(calls.entered) << "the update is the current stream's";
}

TEST(StepGraph, WithoutCudaTheReasonIsThere) {
  Small small;
  EXPECT_THAT(StepGraph(small.parameters(), small.compute(), {.make = {}}).fallback(), Not(IsEmpty()));
  Calls calls;
  EXPECT_THAT(StepGraph(small.parameters(), small.compute(), make_believe(calls, small)).fallback(), IsEmpty());
}

TEST(StepGraph, EachShapeHasARecordingAndTheWeightsOfARunWithoutOne) {
  Calls calls;
  Small plain;
  Small recorded;
  StepGraph plainly(plain.parameters(), plain.compute(), {.make = {}});
  StepGraph graph(recorded.parameters(), recorded.compute(), make_believe(calls, recorded));
  const std::vector<std::int64_t> sizes = {4, 3, 4, 3, 4, 3, 4, 3, 5, 4, 3};
  EXPECT_EQ(train(plain, plainly, sizes), train(recorded, graph, sizes));
  EXPECT_TRUE(at::equal(plain.net->weight, recorded.net->weight));
  EXPECT_EQ(calls.records, 2);
  EXPECT_EQ(calls.replays, 6);
}

constexpr auto kMost = static_cast<std::int64_t>(StepGraph::kMost);

/// Two shapes more than are recorded.
std::vector<std::int64_t> too_many_sizes() {
  std::vector<std::int64_t> sizes(StepGraph::kMost + 2);
  std::iota(sizes.begin(), sizes.end(), 1);
  return sizes;
}

/// If a recording is destroyed, libtorch 2.14 also frees memory that the others use.
TEST(StepGraph, NoRecordingIsDestroyedForAShapeBeyondTheMost) {
  Calls calls;
  Small plain;
  Small recorded;
  StepGraph plainly(plain.parameters(), plain.compute(), {.make = {}});
  StepGraph graph(recorded.parameters(), recorded.compute(), make_believe(calls, recorded));
  for (int pass = 0; pass < 4; ++pass) {
    EXPECT_FALSE(graph.has_left_out() && pass < 3) << "pass " << pass;
    EXPECT_EQ(train(plain, plainly, too_many_sizes()), train(recorded, graph, too_many_sizes())) << "pass " << pass;
  }
  EXPECT_TRUE(recorded.has_weights_of(plain));
  EXPECT_EQ(calls.records, kMost);
  EXPECT_EQ(calls.replays, 2 * kMost);
  EXPECT_EQ(calls.destroyed, 0);
  EXPECT_TRUE(graph.has_left_out());
}

TEST(StepGraph, AShapeBeyondTheMostDoesNotEndTheOthersReplaysByAWait) {
  Calls calls;
  Small small;
  StepGraphOptions options = make_believe(calls, small);
  options.automatic = true;
  StepGraph graph(small.parameters(), small.compute(), options);
  for (std::int64_t size = 1; size <= kMost; ++size) train(small, graph, {size, size, size, size});
  ASSERT_EQ(calls.records, kMost);
  calls.waits = {"aten::nonzero"};
  train(small, graph, {kMost + 1, kMost + 1, kMost + 1});
  EXPECT_EQ(graph.fallback(), "");
  calls.replays = 0;
  train(small, graph, {1});
  EXPECT_EQ(calls.replays, 1);
}

TEST(StepGraph, BatchesWithAKeyOfTheirOwnHaveARecordingOfTheirOwn) {
  Calls calls;
  Small small;
  StepGraphOptions options = make_believe(calls, small);
  options.key = [](const Batch& batch) -> std::optional<std::string> {
    const int words = std::any_cast<int>(batch.extra);
    return words < 0 ? std::nullopt : std::optional(fmt::format("{} words", words));
  };
  StepGraph graph(small.parameters(), small.compute(), options);
  for (const int words : {7, 9, 7, 9, 7, 9, -1, -1, -1, -1}) {
    Batch batch = batch_of(4, 1);
    batch.extra = words;
    (void)graph.run(batch, 1);
    small.update();
  }
  EXPECT_EQ(calls.records, 2);
  EXPECT_EQ(calls.replays, 2);
}

/// A graph of a device that waits within steps, or cannot record.
class HardGraph final : public tensor::DeviceGraph {
 public:
  HardGraph(std::string wait, int& records, NamedTensors parameters)
      : wait_(std::move(wait)), records_(records), parameters_(std::move(parameters)) {}
  void record(const std::function<void()>& work) override {
    ++records_;
    const KeptValues kept(gradients_of(parameters_));
    work();
    throw std::runtime_error("operation not permitted when stream is capturing");
  }
  [[nodiscard]] bool intact() const noexcept override { return true; }
  std::vector<std::string> waits(const std::function<void()>& work) override {
    work();
    return wait_.empty() ? std::vector<std::string>{} : std::vector<std::string>{wait_};
  }
  void replay() override { throw std::logic_error("nothing was recorded"); }

 private:
  std::string wait_;
  int& records_;
  NamedTensors parameters_;
};

/// The reason for the fallback, and the weights after 6 automatic steps on such a device.
std::pair<std::string, at::Tensor> automatic_steps(const std::string& wait, int& records) {
  Small small;
  StepGraphOptions options;
  options.make = [&] { return std::make_unique<HardGraph>(wait, records, small.parameters()); };
  options.automatic = true;
  StepGraph graph(small.parameters(), small.compute(), options);
  train(small, graph, {4, 4, 4, 4, 4, 4});
  return {graph.fallback(), small.net->weight.detach().clone()};
}

TEST(StepGraph, AnAutomaticStepThatWaitsForTheGpuIsNotRecorded) {
  int records = 0;
  EXPECT_EQ(automatic_steps("aten::nonzero", records).first, "aten::nonzero makes the host wait for the GPU");
  EXPECT_EQ(records, 0);
}

TEST(StepGraph, AnAutomaticStepThatCannotBeRecordedIsComputedAsEver) {
  int records = 0;
  Small plain;
  StepGraph plainly(plain.parameters(), plain.compute(), {.make = {}});
  train(plain, plainly, {4, 4, 4, 4, 4, 4});
  const auto [fallback, weight] = automatic_steps("", records);
  EXPECT_EQ(fallback, "operation not permitted when stream is capturing");
  EXPECT_EQ(records, 1);
  EXPECT_TRUE(at::equal(plain.net->weight, weight));
}

TEST(StepGraph, ARecordingThatFailsWithinAStepLeavesTheGradientsOfItsEarlierBatches) {
  int records = 0;
  Small plain;
  Small failing;
  StepGraph plainly(plain.parameters(), plain.compute(), {.make = {}});
  StepGraphOptions options;
  options.make = [&] { return std::make_unique<HardGraph>("", records, failing.parameters()); };
  options.automatic = true;
  StepGraph graph(failing.parameters(), failing.compute(), options);
  const std::vector<std::int64_t> sizes = {5, 4, 5, 4,
                                           6, 4, 6, 4};  // the second batch's size is the first to occur three times
  EXPECT_EQ(accumulate(plain, plainly, sizes, 2), accumulate(failing, graph, sizes, 2));
  EXPECT_EQ(records, 1);
  EXPECT_TRUE(failing.has_weights_of(plain));
}

}  // namespace step_graph_test
}  // namespace lockstep

namespace lockstep::train {
namespace step_graph_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const c10::Device kGpu(c10::kCUDA, 0);

TrainConfig recordable() {
  TrainConfig config;
  config.replicas = 1;
  config.amp = "bf16";
  return config;
}

TEST(GraphChoice, OneProcessOnAGpuMayRecordItsSteps) {
  EXPECT_THAT(graph_obstacle(recordable(), {kGpu, 1, true}), IsEmpty());
}

TEST(GraphChoice, ATaskHasToSayThatItsStepsAreRecordableUnlessTheUserDoes) {
  TrainConfig config = recordable();
  EXPECT_THAT(graph_obstacle(config, {kGpu, 1, false}), HasSubstr("task"));
  config.cuda_graph = "true";
  EXPECT_THAT(graph_obstacle(config, {kGpu, 1, false}), IsEmpty());
  config.cuda_graph = "false";
  EXPECT_THAT(graph_obstacle(config, {kGpu, 1, true}), HasSubstr("false"));
}

TEST(GraphChoice, TheCpuHasNothingToRecord) {
  EXPECT_THAT(graph_obstacle(recordable(), {c10::Device(c10::kCPU), 1, true}), HasSubstr("CPU"));
}

TEST(GraphChoice, SeveralReplicasOnAProcessAreAnObstacleThatIsNamed) {
  TrainConfig config = recordable();
  config.replicas = 4;
  config.cuda_graph = "true";
  EXPECT_THAT(graph_obstacle(config, {kGpu, 2, true, true}), HasSubstr("4 replicas"));
  EXPECT_THAT(graph_obstacle(config, {kGpu, 4, true, true}), IsEmpty());
}

TEST(GraphChoice, SeveralProcessesNeedNccl) {
  TrainConfig config = recordable();
  config.replicas = 2;
  config.cuda_graph = "true";
  EXPECT_THAT(graph_obstacle(config, {kGpu, 2, true, true}), IsEmpty());
  EXPECT_THAT(graph_obstacle(config, {kGpu, 2, true, false}), HasSubstr("2 processes reduce"));
}

TEST(GraphChoice, SeveralProcessesRecordWhereTheyAreAskedTo) {
  TrainConfig config = recordable();
  config.replicas = 2;
  config.cuda_graph = "auto";
  EXPECT_THAT(graph_obstacle(config, {kGpu, 2, true, true}), HasSubstr("cuda_graph=true"));
}

TEST(GraphChoice, AccumulationAndAScaledLossAreNoObstacles) {
  TrainConfig config = recordable();
  config.accumulate_steps = 3;
  config.amp = "fp16";
  ASSERT_TRUE(config.scales_loss());
  EXPECT_THAT(graph_obstacle(config, {kGpu, 1, true}), IsEmpty());
}

}  // namespace step_graph_test
}  // namespace lockstep::train
