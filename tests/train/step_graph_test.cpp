// SPDX-License-Identifier: Apache-2.0
// Steps that are recorded, and what a step spends its time on.
#include <ATen/ops/dropout.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <any>
#include <ctime>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/step_graph.h"
#include "train/report/process_counters.h"
#include "train/settings/graph_choice.h"
#include "train/step/step_clock.h"

namespace lockstep {
namespace step_graph_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// StepGraph with a make-believe recording on the CPU: it runs the work at each replay, where a GPU's computes.

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
  StepGraph plainly(plain.parameters(), plain.compute(), {.make = {}});
  StepGraph graph(recorded.parameters(), recorded.compute(), make_believe(calls, recorded));
  EXPECT_EQ(train(plain, plainly, kSizes), train(recorded, graph, kSizes));
  EXPECT_TRUE(at::equal(plain.net->weight, recorded.net->weight));
  EXPECT_EQ(calls.records, 1);
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
  EXPECT_THAT(StepGraph(small.parameters(), small.compute(), {.make = {}}).fallback(), HasSubstr("no CUDA"));
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

TEST(StepGraph, TheShapeThatWasNotUsedForLongestMakesPlace) {
  Calls calls;
  Small small;
  StepGraph graph(small.parameters(), small.compute(), make_believe(calls, small));
  const auto most = static_cast<std::int64_t>(StepGraph::kMost);
  for (std::int64_t size = 1; size <= most + 1; ++size) train(small, graph, {size, size, size, size});
  EXPECT_EQ(calls.records, most + 1);
  train(small, graph, {most, most + 1});
  EXPECT_EQ(calls.records, most + 1) << "those are there";
  train(small, graph, {1});
  EXPECT_EQ(calls.records, most + 2) << "the first one was not";
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

/// A device that waits in steps, or refuses to record.
class HardGraph final : public tensor::DeviceGraph {
 public:
  HardGraph(std::string wait, int& records) : wait_(std::move(wait)), records_(records) {}
  void record(const std::function<void()>& work) override {
    ++records_;
    work();
    throw std::runtime_error("operation not permitted when stream is capturing");
  }
  [[nodiscard]] bool intact() const noexcept override { return true; }
  std::string first_wait(const std::function<void()>& work) override {
    work();
    return wait_;
  }
  void replay() override { throw std::logic_error("nothing was recorded"); }

 private:
  std::string wait_;
  int& records_;
};

/// The fallback and the weights of 6 automatic steps on such a device.
std::pair<std::string, at::Tensor> automatic_steps(const std::string& wait, int& records) {
  Small small;
  StepGraphOptions options;
  options.make = [&] { return std::make_unique<HardGraph>(wait, records); };
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

}  // namespace step_graph_test
}  // namespace lockstep

namespace lockstep::train {
namespace step_graph_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using trace::Span;
using view::StepPart;

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

TEST(GraphChoice, SeveralProcessesAndReplicasAreObstaclesThatAreNamed) {
  TrainConfig config = recordable();
  config.replicas = 4;
  EXPECT_THAT(graph_obstacle(config, {kGpu, 2, true}), HasSubstr("2 processes"));
  EXPECT_THAT(graph_obstacle(config, {kGpu, 1, true}), HasSubstr("4 replicas"));
}

TEST(GraphChoice, AccumulationAndAScaledLossAreObstacles) {
  TrainConfig config = recordable();
  config.accumulate_steps = 3;
  EXPECT_THAT(graph_obstacle(config, {kGpu, 1, true}), HasSubstr("accumulate_steps is 3"));
  config = recordable();
  config.amp = "fp16";
  EXPECT_THAT(graph_obstacle(config, {kGpu, 1, true}), HasSubstr("scaled"));
}

/// Uses the core for so much CPU time.
void compute_for_ms(int ms) {
  const auto used = [] {
    timespec now{};
    (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
  };
  for (const double end = used() + ms; used() < end;) {
  }
}

double ms_of(const ClockReading& reading, StepPart part) { return 1e3 * reading.parts[static_cast<std::size_t>(part)]; }

TEST(StepClock, CountsASpanWithoutThoseInsideIt) {
  StepClock clock(1);
  {
    const Span backward({.name = "backward"});
    compute_for_ms(2);
    const Span waiting({.name = "DistributedDataParallel::end_backward"});
    compute_for_ms(6);
  }
  const ClockReading reading = clock.take();
  EXPECT_GE(ms_of(reading, StepPart::kBackward), 2);
  EXPECT_GE(ms_of(reading, StepPart::kExposed), 6);
  EXPECT_LT(1e3 * reading.compute_cpu, 6);  // waiting is no computing
  EXPECT_GE(1e3 * reading.compute_cpu, 1.9);
}

TEST(StepClock, CountsWhatAnEvaluationDoesAsTheEvaluation) {
  StepClock clock(1);
  {
    const Span evaluation({.name = "evaluate"});
    const Span next({.name = "DataLoader::next"});
    compute_for_ms(2);
  }
  const ClockReading reading = clock.take();
  EXPECT_GE(ms_of(reading, StepPart::kEvaluate), 2);
  EXPECT_EQ(ms_of(reading, StepPart::kData), 0);
}

TEST(StepClock, LeavesNoTimeOutAndCountsNoneTwice) {
  StepClock clock(1);
  (void)clock.take();
  for (const char* name : {"DataLoader::next", "forward", "loss", "optimizer", "save", "unknown"}) {
    const Span span({.name = name});
    compute_for_ms(1);
  }
  const ClockReading reading = clock.take();
  EXPECT_NEAR(std::accumulate(reading.parts.begin(), reading.parts.end(), 0.0), reading.seconds, 1e-9);
  EXPECT_GE(ms_of(reading, StepPart::kForward), 2);
  EXPECT_GE(ms_of(reading, StepPart::kOther), 1);
  const ClockReading next = clock.take();
  EXPECT_EQ(ms_of(next, StepPart::kForward), 0);
}

TEST(StepClock, CountsReplicasThatTakeTurnsAsOne) {
  StepClock clock(2);
  (void)clock.take();
  const Span first({.name = "backward"});
  clock.turn_to(1);
  std::thread other([&] {
    const Span span({.name = "forward"});
    compute_for_ms(4);
    clock.turn_to(0);  // as at the end of its backward
  });
  other.join();
  const ClockReading reading = clock.take();
  EXPECT_GE(ms_of(reading, StepPart::kForward), 4);
  // The other replica's 4 ms are not counted as this one's.
  EXPECT_LE(ms_of(reading, StepPart::kBackward), 1e3 * reading.seconds - 4);
  EXPECT_GE(1e3 * reading.compute_cpu, 3.9);
  EXPECT_EQ(reading.training_threads.size(), 2U);
}

TEST(StepClock, AddsUpWhatLoaderThreadsDo) {
  StepClock clock(1);
  std::thread([] { fault::in_section("the data set", [] { compute_for_ms(3); }); }).join();
  const ClockReading reading = clock.take();
  EXPECT_GE(1e3 * reading.loading, 3);
  EXPECT_GE(1e3 * reading.loading_cpu, 3);
  EXPECT_EQ(reading.loading_threads.size(), 1U);
  EXPECT_EQ(reading.training_threads.size(), 1U);
}

TEST(StepClock, KeepsAFewStretchesOfAnyNumberOfSteps) {
  StepClock clock(1);
  for (int step = 1; step <= 1000; ++step) {
    fault::note_step(step);
    const Span span({.name = "forward"});
  }
  fault::note_step(-1);
  const ClockReading reading = clock.take();
  EXPECT_EQ(reading.steps, 1000);
  EXPECT_LE(reading.stretches.size(), 16U);
  EXPECT_GE(reading.stretches.size(), 8U);
  std::int64_t next = 1;
  double compute = 0;
  for (const view::Stretch& stretch : reading.stretches) {
    EXPECT_EQ(stretch.first_step, next);
    next += stretch.steps;
    compute += stretch.compute;
  }
  EXPECT_EQ(next, 1001);
  EXPECT_NEAR(1e3 * compute, ms_of(reading, StepPart::kForward), 1e-6);
}

TEST(ProcessCounters, ReadWhatTheKernelCounts) {
  const ProcessCounters before = read_counters();
  compute_for_ms(5);
  EXPECT_GE(read_counters().cpu - before.cpu, 0.0049);
  const ProcessState state = read_state();
  EXPECT_GE(state.cores, 1);
  EXPECT_GT(state.resident, 1'000'000);
  EXPECT_GT(state.host_memory, state.host_free);
  EXPECT_GT(state.host_free, 0);
}

TEST(ProcessCounters, AreParsedFromTheFilesOfProc) {
  EXPECT_EQ(number_of("rchar: 6976\nwchar: 12\nread_bytes: 3\n", "read_bytes:"), 3);
  EXPECT_EQ(number_of("VmPeak:\t 3060 kB\nVmHWM:\t 1604 kB\n", "VmHWM:"), 1604);
  EXPECT_FALSE(number_of("xrchar: 1\n", "rchar:"));
  EXPECT_EQ(delay_of("100 87824 1\n"), 87824);
  EXPECT_FALSE(delay_of(""));
}

TEST(ProcessCounters, TakeInterfacesWithoutThoseThatRepeatThem) {
  const auto found = parse_interfaces(
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo\n"
      "    lo: 900 1 0 0 0 0 0 0 900 1 0 0 0 0 0 0\n"
      "  eth0: 1000 10 0 0 0 0 0 0 300 5 0 0 0 0 0 0\n"
      "docker0: 7 1 0 0 0 0 0 0 8 1 0 0 0 0 0 0\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "eth0");
  EXPECT_EQ(found[0].received, 1000);
  EXPECT_EQ(found[0].sent, 300);
  EXPECT_EQ(parse_resent("Ip: a b\nIp: 1 2\nTcp: InSegs OutSegs RetransSegs InErrs\nTcp: 5 6 42 0\n"), 42);
  EXPECT_EQ(parse_resent("Ip: a\n"), 0);
}

TEST(ProcessCounters, CountWhatPassedBetweenTwoReadings) {
  const NetworkCounters before{.network = "a", .traffic = {{"eth0", 10, 20}, {"eth1", 5, 5}}, .resent = 3};
  const NetworkCounters now{.network = "a", .traffic = {{"eth0", 110, 70}, {"eth1", 5, 5}}, .resent = 4};
  const NetworkCounters passed = passed_since(before, now);
  ASSERT_EQ(passed.traffic.size(), 1U);
  EXPECT_EQ(passed.traffic[0].sent, 100);
  EXPECT_EQ(passed.traffic[0].received, 50);
  EXPECT_EQ(passed.resent, 1);
}

}  // namespace step_graph_test
}  // namespace lockstep::train
