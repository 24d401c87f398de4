// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/profiler.h"

#include <ATen/ops/ones.h>
#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/trace.h"
#include "lockstep/view/kernel_report.h"
#include "support/alone.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"

namespace lockstep::observe {
namespace profiler_test {

using ::lockstep::testing::alone;
using ::testing::HasSubstr;
using view::CallKind;
using view::Profile;

torch::nn::Sequential two_layers() {
  return torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::ReLU(), torch::nn::Linear(8, 2));
}

void train_a_step(torch::nn::Sequential& net) { net->forward(at::ones({16, 4})).sum().backward(); }

Profile profile_of_steps(torch::nn::Sequential& net, ProfilerOptions options, int steps) {
  options.parameters = named_parameters_of(net);
  Profiler profiler(alone(), options);
  for (int i = 0; i < steps; ++i) {
    train_a_step(net);
    profiler.step();
  }
  profiler.finish();
  return profiler.profile();
}

std::int64_t calls_of(const Profile& profile, const std::string& name) {
  return std::count_if(profile.calls.begin(), profile.calls.end(), [&](const auto& call) { return call.name == name; });
}

TEST(Profiler, RecordsTheStepsAfterTheWarmUpAndNoOthers) {
  torch::nn::Sequential net = two_layers();
  const Profile profile = profile_of_steps(net, {.steps = 3, .warmup = 2}, 9);
  EXPECT_EQ(profile.steps, 3);
  EXPECT_EQ(calls_of(profile, "aten::addmm"), 6);
  EXPECT_EQ(calls_of(profile, "AddmmBackward0"), 6);
}

TEST(Profiler, LeavesNoCallbackAndNoSinkBehind) {
  torch::nn::Sequential net = two_layers();
  const auto sinks = trace::sinks();
  (void)profile_of_steps(net, {.steps = 1, .warmup = 1}, 3);
  EXPECT_FALSE(at::hasCallbacks());
  EXPECT_EQ(trace::sinks(), sinks);
}

TEST(Profiler, CountsTheTensorsThatLiveAtThePeakAndNamesWhoMadeThem) {
  torch::nn::Sequential net(torch::nn::Linear(64, 512), torch::nn::Linear(512, 256));
  Profiler profiler(alone(), {.steps = 2, .warmup = 1, .parameters = named_parameters_of(net)});
  for (int i = 0; i < 3; ++i) {
    net->forward(at::ones({1024, 64})).sum().backward();
    profiler.step();
  }
  profiler.finish();
  const view::MemoryPeak peak = memory_peak(profiler.profile());
  constexpr std::int64_t kActivation = 1024 * 512 * 4;  // for the linear layer and for the ReLU
  EXPECT_GE(peak.bytes, 2 * kActivation);
  EXPECT_LT(peak.bytes, 4 * kActivation);
  const auto linear =
      std::find_if(peak.rows.begin(), peak.rows.end(), [](const auto& row) { return row.layer == "0"; });
  ASSERT_NE(linear, peak.rows.end());
  EXPECT_EQ(linear->bytes, kActivation);
  EXPECT_EQ(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE), nullptr);
}

TEST(Profiler, NamesForwardAndBackwardByLayer) {
  torch::nn::Sequential net = two_layers();
  const Profile profile = profile_of_steps(net, {.steps = 2, .warmup = 1}, 3);
  const std::vector<view::LayerRow> layers = layer_table(profile);
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers[0].name, "0");
  EXPECT_EQ(layers[1].name, "2");
  for (const auto& layer : layers) {
    EXPECT_GT(layer.forward_ns, 0);
    EXPECT_GT(layer.backward_ns, 0);
  }
  // Forward and two gradients; the first layer's input needs no gradient.
  EXPECT_EQ(layers[0].flops, 2 * (2.0 * 16 * 4 * 8) * 2);
  EXPECT_EQ(layers[1].flops, 2 * (2.0 * 16 * 8 * 2) * 3);
}

TEST(Profiler, NamesTheLayerOfAProductWithAViewOfItsWeights) {
  torch::nn::Sequential net(torch::nn::Linear(torch::nn::LinearOptions(4, 8).bias(false)));
  Profiler profiler(alone(), {.steps = 1, .warmup = 1, .parameters = named_parameters_of(net)});
  for (int i = 0; i < 2; ++i) {
    net->forward(at::ones({2, 16, 4})).sum().backward();
    profiler.step();
  }
  const std::vector<view::LayerRow> layers = layer_table(profiler.profile());
  ASSERT_EQ(layers.size(), 1U);
  EXPECT_EQ(layers[0].flops, 2 * (2.0 * 2 * 16 * 4 * 8));
}

const view::ProfiledCall& first_call(const Profile& profile, const std::string& name) {
  return *std::find_if(profile.calls.begin(), profile.calls.end(), [&](const auto& call) { return call.name == name; });
}

TEST(Profiler, RecordsInputsAndWhatMadeANodeOnRequest) {
  torch::nn::Sequential net = two_layers();
  const Profile profile = profile_of_steps(net, {.steps = 1, .warmup = 1, .inputs = true, .prints = false}, 2);
  const view::ProfiledCall& product = first_call(profile, "aten::addmm");
  ASSERT_GE(product.inputs.size(), 3U);
  EXPECT_EQ(product.inputs[1].type, "float32");
  EXPECT_EQ(product.inputs[1].sizes, (std::vector<std::int64_t>{16, 4}));
  // The node belongs to the whole layer, not to the product inside it. The last layer's node runs first.
  const bool has_linear = calls_of(profile, "aten::linear") > 0;  // not in every version of libtorch
  std::int64_t last_layer = 0;
  for (const auto& call : profile.calls) {
    if (call.name == (has_linear ? "aten::linear" : "aten::addmm")) last_layer = call.begin_ns;
  }
  EXPECT_EQ(first_call(profile, "AddmmBackward0").made_ns, last_layer);

  const Profile without = profile_of_steps(net, {.steps = 1, .warmup = 1, .prints = false}, 2);
  EXPECT_TRUE(first_call(without, "aten::addmm").inputs.empty());
  EXPECT_EQ(first_call(without, "AddmmBackward0").made_ns, 0);
}

TEST(Profiler, MakesATableOfKernels) {
  torch::nn::Sequential net = two_layers();
  Profiler profiler(alone(),
                    {.steps = 2, .warmup = 1, .parameters = named_parameters_of(net), .inputs = true, .prints = false});
  for (int i = 0; i < 3; ++i) {
    at::Tensor out;
    {
      RECORD_USER_SCOPE("forward");
      out = net->forward(at::ones({16, 4}));
    }
    out.sum().backward();
    profiler.step();
  }
  const auto rows = view::kernel_table(profiler.profile(), {.blas = "BLAS"});
  const auto layer =
      std::find_if(rows.begin(), rows.end(), [](const auto& row) { return row.layer == "linear, 16x4 to 8"; });
  ASSERT_NE(layer, rows.end());
  EXPECT_EQ(layer->kernel, "BLAS");
  EXPECT_EQ(layer->calls, 1);
  EXPECT_EQ(layer->modules, std::vector<std::string>{"0"});
  EXPECT_EQ(layer->forward.flops, 2.0 * 16 * 4 * 8);
  EXPECT_EQ(layer->backward.flops, 2.0 * 16 * 4 * 8) << "the input of the first layer needs no gradient";
  EXPECT_GT(layer->backward.ns, 0);
}

TEST(Profiler, CountsWhatIsInsideOfACountedOperatorOnce) {
  torch::nn::Sequential net = two_layers();
  const Profile profile = profile_of_steps(net, {.steps = 1, .warmup = 1}, 2);
  EXPECT_EQ(flops_of(profile), 2.0 * 16 * 4 * 8 * 2 + 2.0 * 16 * 8 * 2 * 3);
}

TEST(Profiler, HasPartsThatAddUpToItsTimeAndOperatorsThatDoNotExceedIt) {
  torch::nn::Sequential net = two_layers();
  const Profile profile = profile_of_steps(net, {.steps = 5, .warmup = 1}, 6);
  std::int64_t parts = 0;
  for (const auto& part : part_table(profile)) parts += part.ns;
  EXPECT_EQ(parts, profile.end_ns - profile.begin_ns);
  std::int64_t operators = 0;
  for (const auto& row : operator_table(profile)) {
    EXPECT_GE(row.self_ns, 0) << row.name;
    operators += row.self_ns;
  }
  EXPECT_LE(operators, profile.end_ns - profile.begin_ns);
  EXPECT_GT(operators, 0);
}

TEST(Profiler, MeasuresWhatTheMachineReaches) {
  torch::nn::Sequential net = two_layers();
  Profiler profiler(alone(), {.steps = 1, .warmup = 1});
  train_a_step(net);
  profiler.step();
  EXPECT_GT(profiler.rates().copied_bytes_per_s, 1e8);
  EXPECT_GT(profiler.rates().flops_per_s, 1e8);
}

TEST(Profiler, EndsWithTheStepsThatThereAre) {
  torch::nn::Sequential net = two_layers();
  EXPECT_EQ(profile_of_steps(net, {.steps = 10, .warmup = 1}, 3).steps, 2);
  EXPECT_EQ(profile_of_steps(net, {.steps = 10, .warmup = 3}, 2).steps, 0);
}

TEST(Profiler, IsTheOnlyOneThatRecords) {
  Profiler first(alone(), {.steps = 5, .warmup = 1});
  Profiler second(alone(), {.steps = 5, .warmup = 1});
  first.step();
  EXPECT_THROW(second.step(), UsageError);
}

TEST(Profiler, RefusesNoStepsAndNoWarmUp) {
  EXPECT_THROW(Profiler(alone(), {.steps = 0}), UsageError);
  EXPECT_THROW(Profiler(alone(), {.steps = 1, .warmup = 0}), UsageError);
}

TEST(Profiler, WritesTheTraceOfItsRank) {
  const test::TempDir folder;
  torch::nn::Sequential net = two_layers();
  (void)profile_of_steps(net, {.steps = 1, .warmup = 1, .folder = folder / "trace"}, 2);
  const auto json = nlohmann::json::parse(FileSystem::system().read(folder / "trace" / "rank-0.json"));
  bool has_backward_of_layer = false;
  for (const auto& event : json.at("traceEvents")) has_backward_of_layer |= event.at("name") == "2 AddmmBackward0";
  EXPECT_TRUE(has_backward_of_layer);
}

RANKS_TEST(Profiler, HasTheCollectivesOfEachRank, 2) {
  Profiler profiler(job, {.steps = 2, .warmup = 1});
  for (int i = 0; i < 3; ++i) {
    const at::Tensor values = at::ones({1024});
    job.group().all_reduce(values).wait();
    profiler.step();
  }
  const Profile& profile = profiler.profile();
  const auto is_all_reduce = [](const auto& call) { return call.kind == CallKind::kCollective && call.bytes == 4096; };
  EXPECT_EQ(std::count_if(profile.calls.begin(), profile.calls.end(), is_all_reduce), 2);
  EXPECT_EQ(profile.clock_offset_ns, 0);  // one host
}

}  // namespace profiler_test
}  // namespace lockstep::observe
