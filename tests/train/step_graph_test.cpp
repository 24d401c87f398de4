// SPDX-License-Identifier: Apache-2.0
// StepGraph with a make-believe recording on the CPU: it runs the work at each replay, where a GPU's computes.
#include "lockstep/train/step_graph.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <any>
#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/tensor/random.h"

namespace lockstep {
namespace step_graph_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// What the recording was told, counted.
struct Calls {
  bool entered = false;              ///< the recorded stream is the current one
  std::vector<bool> on_stream = {};  ///< by computation of a step: it was then
  int records = 0;
  int replays = 0;
};

/// A replay computes into the memory that the recording was made in, as a GPU's does.
class MakeBelieveGraph final : public tensor::DeviceGraph {
 public:
  MakeBelieveGraph(Calls& calls, NamedTensors parameters) : calls_(calls), parameters_(std::move(parameters)) {}

  std::shared_ptr<void> enter() override {
    calls_.entered = true;
    return {&calls_, [](Calls* calls) { calls->entered = false; }};
  }
  void record(const std::function<void()>& work) override {
    ++calls_.records;
    work_ = work;
    work();
    for (const auto& item : parameters_) gradients_.push_back(item.second.grad());
    for (const at::Tensor& gradient : gradients_) gradient.zero_();  // it was recorded, not computed
  }
  void replay() override {
    ++calls_.replays;
    for (const auto& item : parameters_) item.second.mutable_grad() = at::Tensor();
    work_();
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      gradients_[i].copy_(parameters_[i].second.grad());
      parameters_[i].second.mutable_grad() = at::Tensor();
    }
  }

 private:
  Calls& calls_;
  NamedTensors parameters_;
  std::function<void()> work_;
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

/// A network with dropout, its weights and its step.
struct Small {
  torch::nn::Linear net{6, 2};

  Small() : loss_(at::zeros({})) {
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : net->parameters()) parameter.fill_(0.25);
  }
  [[nodiscard]] NamedTensors parameters() { return named_parameters_of(net); }
  [[nodiscard]] StepGraph::Compute compute() {
    return [this](const Batch& batch) {
      const at::Tensor loss = at::dropout(net(batch.data), 0.5, true).pow(2).sum();
      loss.backward();
      return loss_.copy_(loss.detach());  // where a recording's loss always is
    };
  }
  void update() {
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : net->parameters()) {
      parameter.sub_(parameter.grad(), 0.01);
      parameter.mutable_grad() = at::Tensor();
    }
  }

 private:
  at::Tensor loss_;
};

Batch batch_of(std::int64_t size, std::uint64_t seed) {
  seed_all(seed);
  Batch batch;
  batch.data = at::rand({size, 6});
  batch.size = size;
  return batch;
}

/// The loss of each step over batches of these sizes.
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
  StepGraph plainly(plain.parameters(), plain.compute(), nullptr);
  StepGraph graph(recorded.parameters(), recorded.compute(),
                  std::make_unique<MakeBelieveGraph>(calls, recorded.parameters()));
  EXPECT_EQ(train(plain, plainly, kSizes), train(recorded, graph, kSizes));
  EXPECT_TRUE(at::equal(plain.net->weight, recorded.net->weight));
  EXPECT_EQ(calls.records, 1);
}

TEST(StepGraph, TheFirstStepsAreNotRecordedAndABatchOfAnotherShapeIsNotReplayed) {
  Calls calls;
  Small small;
  StepGraph graph(small.parameters(), small.compute(), std::make_unique<MakeBelieveGraph>(calls, small.parameters()));
  train(small, graph, {4, 4, 4});
  EXPECT_FALSE(graph.recorded());
  train(small, graph, {4, 3, 4});
  EXPECT_TRUE(graph.recorded());
  EXPECT_EQ(calls.replays, 2);
}

TEST(StepGraph, ALossOutlivesTheNextReplay) {
  Calls calls;
  Small small;
  StepGraph graph(small.parameters(), small.compute(), std::make_unique<MakeBelieveGraph>(calls, small.parameters()));
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
  StepGraph graph(small.parameters(), small.compute(), std::make_unique<MakeBelieveGraph>(calls, small.parameters()));
  train(small, graph, {4, 4, 4, 4});
  Batch batch = batch_of(4, 9);
  batch.extra = std::any(3);
  (void)graph.run(batch, 9);
  EXPECT_EQ(calls.replays, 1);
}

TEST(StepGraph, AStepThatCannotBeRecordedEndsTheRunWithTheReason) {
  Small broken;
  StepGraph graph(broken.parameters(), broken.compute(), std::make_unique<BrokenGraph>());
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
  StepGraph graph(small.parameters(), compute, std::make_unique<MakeBelieveGraph>(calls, small.parameters()));
  train(small, graph, {4, 4, 3});
  EXPECT_EQ(calls.on_stream, (std::vector<bool>{true, true, true}));
  EXPECT_FALSE(calls.entered) << "the update is the current stream's";
}

TEST(StepGraph, WithoutCudaTheReasonIsThere) {
  Small small;
  EXPECT_THAT(StepGraph(small.parameters(), small.compute(), nullptr).fallback(), HasSubstr("no CUDA"));
  Calls calls;
  EXPECT_THAT(
      StepGraph(small.parameters(), small.compute(), std::make_unique<MakeBelieveGraph>(calls, small.parameters()))
          .fallback(),
      IsEmpty());
}

}  // namespace step_graph_test
}  // namespace lockstep
