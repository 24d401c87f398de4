// SPDX-License-Identifier: Apache-2.0
// Recorded steps of several fake GPUs, with NCCL's collectives inside.
#include "support/host_waits.h"
// then the headers that need torch
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <torch/nn/modules/linear.h>

#include <chrono>
#include <optional>
#include <thread>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/group_check.h"
#include "lockstep/comm/step_calls.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/communication_hook.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/power_sgd.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/step_graph.h"
#include "support/double/ended_ranks.h"
#include "support/double/ranks.h"
#include "support/double/test_streams.h"
#include "support/fault_of.h"

namespace lockstep {
namespace double_test {

using test::fault_of;
using testing::current_test;
using ::testing::ElementsAre;
using testing::ended_ranks;
using testing::EndedRanks;
using testing::expect_the_others_to_name_rank_1;
using testing::found_races;
using testing::found_replays;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RankEnd;
using testing::RankProcesses;
using testing::ranks_on_gpus;
using testing::run_ranks;
using Env = std::map<std::string, std::string>;

// The double itself ---------------------------------------------------------------------------------------------------

using testing::another_stream;
using testing::current_stream;
using testing::kGpu;
using testing::put_behind;

/// The error from recording `work`.
std::string refusal(const std::function<void()>& work) {
  const auto graph = tensor::make_device_graph();
  std::string words = fault_of<std::runtime_error>([&] { graph->record(work); });
  EXPECT_TRUE(graph->intact());
  return words;
}

class DoubleGraph : public ::testing::Test {
 protected:
  void SetUp() override {
    LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
    (void)found_races();  // discards races with the previous test's memory
  }
};

TEST_F(DoubleGraph, WhatIsRecordedIsNotComputedAndEachReplayReadsItsInputsAgain) {
  const at::Tensor input = at::full({4}, 1.0F, kGpu);
  const at::Tensor count = at::full({1}, 0.0F, kGpu);
  at::Tensor output;
  const auto graph = tensor::make_device_graph();
  graph->record([&] {
    EXPECT_TRUE(tensor::is_recording());
    output = (input + 1) * 2;
    count.add_(1);
  });
  EXPECT_FALSE(tensor::is_recording());
  EXPECT_EQ(count.item<float>(), 0);
  EXPECT_TRUE(output.isnan().all().item<bool>());
  for (const float value : {1.0F, 5.0F}) {
    input.fill_(value);
    graph->replay();
    EXPECT_EQ(output.min().item<float>(), (value + 1) * 2);
  }
  EXPECT_EQ(count.item<float>(), 2);
  EXPECT_THAT(found_races(), IsEmpty());
}

TEST_F(DoubleGraph, RandomNumbersOfAReplayAreThoseOfItsSeed) {
  at::Tensor drawn;
  const auto graph = tensor::make_device_graph();
  graph->record([&] { drawn = at::rand({8}, at::TensorOptions(kGpu)); });
  for (const int seed : {1, 2}) {
    seed_all(static_cast<std::uint64_t>(seed));
    graph->replay();
    seed_all(static_cast<std::uint64_t>(seed));
    EXPECT_TRUE(at::equal(drawn.cpu(), at::rand({8}))) << seed;
  }
}

TEST_F(DoubleGraph, AStreamThatWaitsForARecordedOneIsRecordedAsWell) {
  const at::Tensor values = at::full({4}, 1.0F, kGpu);
  const auto graph = tensor::make_device_graph();
  graph->record([&] {
    const c10::Stream another = another_stream();
    put_behind(another, current_stream());
    {
      const c10::StreamGuard on_another(another);
      values.add_(1);
    }
    put_behind(current_stream(), another);
    values.mul_(3);
  });
  EXPECT_EQ(values[0].item<float>(), 1);
  graph->replay();
  EXPECT_EQ(values[0].item<float>(), 6);
  EXPECT_THAT(found_races(), IsEmpty());
}

TEST_F(DoubleGraph, AStreamHasToBeJoinedAgain) {
  const at::Tensor values = at::full({4}, 1.0F, kGpu);
  EXPECT_THAT(refusal([&] {
                const c10::Stream another = another_stream();
                put_behind(another, current_stream());
                const c10::StreamGuard on_another(another);
                values.add_(1);
              }),
              HasSubstr("unjoined work"));
  EXPECT_EQ(values[0].item<float>(), 1);
}

TEST_F(DoubleGraph, BranchesThatDoNotWaitForEachOtherAreFoundByAReplay) {
  const at::Tensor values = at::full({4}, 1.0F, kGpu);
  const auto graph = tensor::make_device_graph();
  graph->record([&] {
    const c10::Stream another = another_stream();
    put_behind(another, current_stream());
    {
      const c10::StreamGuard on_another(another);
      values.add_(1);
    }
    values.mul_(3);
    put_behind(current_stream(), another);
  });
  EXPECT_THAT(found_races(), IsEmpty());
  graph->replay();
  EXPECT_THAT(found_races(), ElementsAre(HasSubstr("and does not wait for it")));
}

TEST_F(DoubleGraph, MemoryThatAGraphUsesHasToStay) {
  at::Tensor values = at::full({4}, 1.0F, kGpu);
  const auto graph = tensor::make_device_graph();
  graph->record([&] { values.add_(1); });
  values.reset();
  graph->replay();
  EXPECT_THAT(found_races(), ElementsAre(HasSubstr("of a graph uses memory that was given back")));
}

TEST_F(DoubleGraph, WhatCudaRefusesWhileItRecordsIsRefused) {
  const at::Tensor values = at::full({4}, 1.0F, kGpu);
  const at::Tensor here = at::full({4}, 1.0F);
  c10::Event before(c10::kCUDA);
  before.record(current_stream());
  const char* not_now = "operation not permitted when stream is capturing";
  EXPECT_THAT(refusal([&] { (void)values[0].item<float>(); }), HasSubstr(not_now));
  EXPECT_THAT(refusal([&] { values.copy_(here); }), HasSubstr(not_now));
  EXPECT_THAT(refusal([&] { current_stream().synchronize(); }), HasSubstr(not_now));
  EXPECT_THAT(refusal([&] { (void)current_stream().query(); }), HasSubstr(not_now));
  EXPECT_THAT(refusal([&] { (void)before.query(); }), HasSubstr(not_now));
  EXPECT_THAT(refusal([&] { before.block(current_stream()); }), HasSubstr("uncaptured work"));
  EXPECT_EQ(values.add(1)[0].item<float>(), 2) << "and work goes on";
}

TEST_F(DoubleGraph, AnEventOfARecordingIsNotAskedFor) {
  const auto graph = tensor::make_device_graph();
  c10::Event inside(c10::kCUDA);
  graph->record([&] { inside.record(current_stream()); });
  const auto words = [](const std::function<void()>& call) { return fault_of<std::runtime_error>(call); };
  const char* recorded = "an event last recorded in a capturing stream";
  EXPECT_THAT(words([&] { (void)inside.query(); }), HasSubstr(recorded));
  EXPECT_THAT(words([&] { inside.block(current_stream()); }), HasSubstr(recorded));
}

/// The graph must be destroyed first, but here it is kept forever.
TEST_F(DoubleGraph, ACommunicatorThatEndsBeforeAGraphOfItsEndsTheProcess) {
  RankProcesses ranks(
      current_test(),
      [](Job& job) {
        const at::Tensor values = at::full({4}, 1.0F, job.device());
        job.group().all_reduce(values).wait();
        auto* graph = tensor::make_device_graph().release();
        graph->record([&] { job.group().all_reduce(values).wait(); });
      },
      ranks_on_gpus(2));
  for (const RankEnd& end : ranks.wait()) {
    EXPECT_EQ(end.code, 128 + SIGABRT);
    EXPECT_THAT(end.log, HasSubstr("ncclCommDestroy before the graphs with its collectives"));
  }
}

// Steps of several ranks ----------------------------------------------------------------------------------------------

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("first", first);
    register_module("second", second);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor hidden = first(x).tanh();
    if (waits_in_recordings) {
      (void)hidden.register_hook([](const at::Tensor& gradient) {
        if (tensor::is_recording()) (void)gradient.sum().item<float>();
      });
    }
    return second(hidden);
  }
  bool waits_in_recordings = false;
  torch::nn::Linear first{8, 32};
  torch::nn::Linear second{32, 4};
};
TORCH_MODULE(Net);

/// The variants of a training run.
struct Plan {
  bool records = true;
  bool automatic = false;
  int steps = 20;
  int batches = 1;  ///< number of batches per step
  bool waits_in_recordings = false;
  DdpOptions ddp = {.first_bucket_bytes = 64, .bucket_bytes = 600};
  std::function<std::int64_t(int step)> rows = [](int /*step*/) { return 4; };
};

/// A rank's training run, with its model on the recorded stream.
class Training {
 public:
  Training(Job& job, Plan plan) : job_(job), plan_(std::move(plan)) {
    const auto stream = plan_.records ? tensor::make_device_graph()->enter() : nullptr;
    seed_all(3);
    net_ = Net();
    net_->waits_in_recordings = plan_.waits_in_recordings;
    net_->to(job.device());
    model_.emplace(net_, job, plan_.ddp);
    optimizer_.emplace(*model_, SGDOptions{.lr = 0.01});
    StepGraphOptions options;
    if (!plan_.records) options.make = nullptr;
    options.automatic = plan_.automatic;
    options.job = job;
    options.key = [this](const Batch& /*batch*/) { return std::optional<std::string>(adds_up_ ? "adds up" : ""); };
    steps_.emplace(
        named_parameters_of(*model_), [this](const Batch& batch) { return compute(batch); }, std::move(options));
  }

  void run() {
    for (int step = 0; step < plan_.steps; ++step) {
      for (int i = 0; i < plan_.batches; ++i) {
        adds_up_ = i + 1 < plan_.batches;
        (void)steps_->run(batch_of(step * plan_.batches + i), 1);
      }
      optimizer_->step();
      optimizer_->zero_grad();
    }
  }
  [[nodiscard]] std::vector<at::Tensor> weights() const {
    std::vector<at::Tensor> found;
    for (const at::Tensor& parameter : net_->parameters()) found.push_back(parameter.detach().cpu());
    return found;
  }
  [[nodiscard]] const std::string& fallback() const { return steps_->fallback(); }

 private:
  at::Tensor compute(const Batch& batch) {
    if (!adds_up_) return forward_and_backward(batch);
    const NoSync adds_up = model_->no_sync();
    return forward_and_backward(batch);
  }
  at::Tensor forward_and_backward(const Batch& batch) {
    const at::Tensor loss = (*model_)(batch.data).square().mean() / plan_.batches;
    loss.backward();
    return loss.detach();
  }
  [[nodiscard]] Batch batch_of(int number) const {
    seed_all(static_cast<std::uint64_t>(100 * number + job_.rank()));
    Batch batch;
    batch.size = plan_.rows(number);
    batch.data = at::rand({batch.size, 8}).to(job_.device());
    return batch;
  }

  Job& job_;
  const Plan plan_;
  Net net_{nullptr};
  std::optional<DistributedDataParallel<NetImpl>> model_;
  std::optional<SGD> optimizer_;
  std::optional<StepGraph> steps_;
  bool adds_up_ = false;
};

/// Trains with and without recorded steps, and expects the same bits. Returns the number of replays.
int replays_of(Job& job, Plan plan) {
  EXPECT_THAT(job.backend(), HasSubstr("nccl"));
  Training recorded(job, plan);
  recorded.run();
  EXPECT_THAT(recorded.fallback(), IsEmpty());
  const int replays = found_replays();
  plan.records = false;
  Training plain(job, plan);
  plain.run();
  for (std::size_t i = 0; i < plain.weights().size(); ++i) {
    EXPECT_TRUE(at::equal(plain.weights()[i], recorded.weights()[i])) << i;
  }
  EXPECT_THAT(found_races(), IsEmpty());
  return replays;
}

class GraphWorlds : public ::testing::TestWithParam<int> {};

TEST_P(GraphWorlds, HaveTheBitsOfStepsThatAreNotRecorded) {
  run_ranks(
      current_test(), [](Job& job) { EXPECT_EQ(replays_of(job, {}), 20 - StepGraph::kWarmUpOfRanks); },
      ranks_on_gpus(GetParam(), {{"LOCKSTEP_DOUBLE_DELAY_US", "500"}}));
}

TEST_P(GraphWorlds, ReduceTheGradientsOfSeveralBatchesOnceAStep) {
  run_ranks(
      current_test(),
      [](Job& job) {
        // The first 11 batches are computed normally. The last batch of the fourth step and all later ones are
        // replayed.
        EXPECT_EQ(replays_of(job, {.steps = 8, .batches = 3}), 8 * 3 - StepGraph::kWarmUpOfRanks);
      },
      ranks_on_gpus(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Of, GraphWorlds, ::testing::Values(2, 3, 4));

TEST(DoubleSteps, WhereOneRankHasAnotherShapeAllComputeNormally) {
  run_ranks(
      current_test(),
      [](Job& job) {
        Plan plan;
        const bool differs = job.rank() == 1;
        plan.rows = [differs](int step) { return differs && (step == 13 || step == 17) ? 3 : 4; };
        EXPECT_EQ(replays_of(job, plan), 20 - StepGraph::kWarmUpOfRanks - 2);
      },
      ranks_on_gpus(3));
}

TEST(DoubleSteps, AShapeThatAllRanksHaveIsRecordedAsWell) {
  run_ranks(
      current_test(),
      [](Job& job) {
        Plan plan;
        plan.rows = [](int step) { return step % 2 == 0 ? 4 : 3; };
        EXPECT_EQ(replays_of(job, plan), 20 - StepGraph::kWarmUpOfRanks);
      },
      ranks_on_gpus(2));
}

/// A plan in which the hosts inform each other in each step of the parameters in use.
Plan with_branches() {
  Plan plan;
  plan.ddp.find_unused_parameters = true;
  return plan;
}

TEST(DoubleSteps, CollectivesOfTheHostsAreAnObstacle) {
  run_ranks(
      current_test(),
      [](Job& job) {
        Plan plan = with_branches();
        plan.automatic = true;
        Training training(job, plan);
        training.run();
        EXPECT_EQ(training.fallback(), "the hosts take part in all_reduce(max) of 4 int32 within the step");
        EXPECT_EQ(found_replays(), 0);
        Training must(job, with_branches());
        EXPECT_THAT(fault_of<UsageError>([&] { must.run(); }),
                    HasSubstr("the step cannot be recorded as a CUDA graph: the hosts take part in all_reduce(max)"));
      },
      ranks_on_gpus(2));
}

TEST(DoubleSteps, PowerSgdIsAnObstacle) {
  run_ranks(
      current_test(),
      [](Job& job) {
        Plan plan{.automatic = true};
        plan.ddp.hook = hooks::power_sgd(std::make_shared<PowerSgd>(PowerSgdOptions{.start_iter = 2}));
        Training training(job, plan);
        training.run();
        EXPECT_EQ(training.fallback(), "the hosts take part in computing PowerSGD's state within the step");
      },
      ranks_on_gpus(2));
}

TEST(DoubleSteps, GradientsTravelCompressedInARecordingAsWell) {
  run_ranks(
      current_test(),
      [](Job& job) {
        Plan plan;
        plan.ddp.hook = hooks::bf16_compress();
        EXPECT_EQ(replays_of(job, plan), 20 - StepGraph::kWarmUpOfRanks);
      },
      ranks_on_gpus(2));
}

/// Only some of the all-reduces have started when one rank's recording fails.
TEST(DoubleSteps, ARecordingThatFailsWithinBackwardIsTakenBack) {
  run_ranks(
      current_test(),
      [](Job& job) {
        Plan plan{.automatic = true, .waits_in_recordings = job.rank() == 1};
        Training failing(job, plan);
        failing.run();
        const char* why = job.rank() == 1 ? "CUDA error: operation not permitted when stream is capturing"
                                          : "another rank cannot record its steps";
        EXPECT_EQ(failing.fallback(), why);
        plan.records = false;
        Training plain(job, plan);
        plain.run();
        for (std::size_t i = 0; i < plain.weights().size(); ++i) {
          EXPECT_TRUE(at::equal(plain.weights()[i], failing.weights()[i])) << i;
        }
      },
      ranks_on_gpus(2));
}

TEST(DoubleSteps, AReplayOfAnotherRecordingIsNamed) {
  RankProcesses ranks(
      current_test(),
      [](Job& job) {
        replay_step(job.group(), job.rank() == 0 ? 0xab : 0xcd, [] {});
        std::this_thread::sleep_for(std::chrono::seconds(1));
        check_group(job.group());
      },
      ranks_on_gpus(2));
  for (const RankEnd& end : ranks.wait()) {
    EXPECT_NE(end.code, 0);
    EXPECT_THAT(end.log, HasSubstr("step graph 00000000000000ab on rank 0"));
    EXPECT_THAT(end.log, HasSubstr("step graph 00000000000000cd on rank 1"));
  }
}

// Failures ------------------------------------------------------------------------------------------------------------

constexpr const char* kStops = "LOCKSTEP_TEST_STOPS";
/// Trains with replayed steps until a fault ends it. A rank finishes its work before it stops itself.
void train_for_ever(Job& job) {
  Training training(job, {.steps = 15});
  training.run();
  EXPECT_GT(found_replays(), 0);
  job.print_all("the loop runs");
  for (;;) {
    if (env::get(kStops) == std::to_string(job.rank())) {
      (void)training.weights();
      raise(SIGSTOP);
    }
    training.run();
    check_group(job.group());
  }
}

/// NCCL gets one call per bucket in a step, and a few before the first step; this call is part of a replay.
constexpr const char* kInAReplay = "call=80";

EndedRanks loop_with(int world, const std::string& fault, Env env = {}) {
  env.try_emplace("LOCKSTEP_TIMEOUT", "60");
  env["LOCKSTEP_DOUBLE_FAULT"] = std::string("rank=1,") + kInAReplay + ",fault=" + fault;
  return ended_ranks(train_for_ever, ranks_on_gpus(world, std::move(env)));
}

TEST(DoubleStepFailure, AnErrorOfNcclsInAReplayIsNamedOnAllAtOnce) {
  const EndedRanks ended = loop_with(3, "error");
  EXPECT_EQ(ended.ranks[1].code, 69) << ended.ranks[1].log;
  EXPECT_THAT(ended.ranks[1].log, HasSubstr("step graph failed on the GPU"));
  EXPECT_THAT(ended.ranks[1].log, HasSubstr("simulated error of the network"));
  expect_the_others_to_name_rank_1(ended);
}

TEST(DoubleStepFailure, AHangInAReplayEndsAllAtTheTimeLimit) {
  const EndedRanks ended = loop_with(2, "hang", {{"LOCKSTEP_TIMEOUT", "2"}});
  for (const RankEnd& end : ended.ranks) {
    EXPECT_NE(end.code, 0);
    EXPECT_THAT(end.log, HasSubstr("step graph timed out on the GPU after 2.0 s"));
  }
}

TEST(DoubleStepFailure, ARankThatDiesInAReplayIsNamedByTheOthers) {
  const EndedRanks ended = loop_with(3, "die");
  EXPECT_EQ(ended.ranks[1].code, 128 + SIGKILL);
  expect_the_others_to_name_rank_1(ended);
}

RankEnd end_beside_a_stopped_rank(const testing::RanksOptions& options, bool stops_itself) {
  RankProcesses ranks(current_test(), train_for_ever, options);
  EXPECT_TRUE(ranks.wait_for_log(1, "the loop runs"));
  if (!stops_itself) kill(ranks.pid(1), SIGSTOP);
  EXPECT_TRUE(ranks.wait_for_log(0, "timed out"));
  kill(ranks.pid(1), SIGKILL);
  return ranks.wait().at(0);
}

TEST(DoubleStepFailure, AStoppedRankIsNamed) {
  const RankEnd end = end_beside_a_stopped_rank(ranks_on_gpus(2, {{"LOCKSTEP_TIMEOUT", "2"}, {kStops, "1"}}), true);
  EXPECT_EQ(end.code, 76) << end.log;
  EXPECT_THAT(end.log, HasSubstr("waiting for   rank 1 on"));
}

/// A fake GPU stops with its process; a real GPU would continue.
TEST(DoubleStepFailure, ARankThatIsStoppedAnywhereIsATimeout) {
  const RankEnd end = end_beside_a_stopped_rank(ranks_on_gpus(2, {{"LOCKSTEP_TIMEOUT", "2"}}), false);
  EXPECT_EQ(end.code, 76) << end.log;
}

}  // namespace double_test
}  // namespace lockstep
