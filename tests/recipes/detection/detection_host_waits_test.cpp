// SPDX-License-Identifier: Apache-2.0
// A detection step waits for its GPU once, for the matching costs. Counted on a fake GPU.
#include "support/waits_of_run.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <cmath>
#include <optional>

#include "detection/config.h"
#include "detection/model/criterion.h"
#include "detection/model/layers_at_once.h"
#include "detection/model/model.h"
#include "detection/task.h"
#include "lockstep/base/config.h"
#include "lockstep/data/contact_sheet.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/linear.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/prepare.h"
#include "lockstep/train/recipe.h"

namespace lockstep::detection {
namespace detection_host_waits_test {

using ::testing::Each;
using ::testing::SizeIs;

/// A preset with small synthetic scenes, two per step.
DetectionConfig preset(const std::string& name) {
  DetectionConfig config;
  ConfigFields fields;
  config.describe(fields);
  fields.bind(ConfigTree::from_text(presets().at(name), name));
  config.num_classes = 8;
  config.data.train = config.data.test = "scenes:40:1";
  config.replicas = 1;
  config.batch_size = 2;
  config.total_batch_size = 0;
  config.augment.base_size_repeat = 0;
  config.image_size = 128;
  return config;
}

void expect_one_wait_a_step(const DetectionConfig& config) {
  const std::vector<std::string> found = testing::waits_of_run<DetectionTask>(config);
  EXPECT_THAT(found, SizeIs(testing::WaitCounter::kSteps));
  EXPECT_THAT(found, Each(std::string("copy to the host")));
}

TEST(DetectionHostWaits, PredictFindsTheSameOnAGpu) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  const test::TempDir folder;
  const std::filesystem::path file = folder / "picture.png";
  write_png({.size = {96, 64}, .channels = 3, .pixels = std::vector<std::uint8_t>(96 * 64 * 3, 99)}, file);
  const DetectionConfig config = preset("scenes");
  const auto recipe = make_recipe();
  const auto found_on = [&](const c10::Device& device) {
    const auto task = recipe->make_task(config);
    seed_all(3);
    const auto model = task->make_model();
    model->eval();
    model->to(device);
    const NoGrad no_grad;
    return recipe->predict(*task, *model, {file}).at(0).text;
  };
  EXPECT_EQ(found_on(testing::make_believe_gpu()), found_on(at::kCPU));
}

TEST(DetectionHostWaits, AStepWaitsForTheCostsOfMatchingAlone) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  expect_one_wait_a_step(preset("scenes"));
}

TEST(DetectionHostWaits, SoItDoesWithoutDenoisingAndDenseSupervision) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  DetectionConfig config = preset("scenes");
  config.model.denoising = 0;
  config.model.dense = false;
  expect_one_wait_a_step(config);
}

TEST(DetectionHostWaits, SoDoesThePublishedNetwork) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  DetectionConfig config = preset("dfine_n");
  config.published.queries = 30;
  expect_one_wait_a_step(config);
}

Detections objects(std::int64_t count) {
  Detections some;
  some.boxes = at::rand({count, 4}) * 0.3 + 0.3;
  some.labels = at::randint(8, {count}, at::kLong);
  return some;
}

/// A term's value, and the norm of its gradient with respect to the queries' corners and logits.
std::vector<std::pair<std::string, double>> terms_of(Outputs outputs, const Targets& targets) {
  for (const char* name : {"logits", "corners"}) outputs[name] = outputs.at(name).detach().requires_grad_();
  const std::vector<LossTerm> terms = criterion(outputs, targets, {});
  sum(terms).backward();
  std::vector<std::pair<std::string, double>> found;
  for (const LossTerm& term : terms) found.emplace_back(term.name, term.value.item<double>());
  for (const char* name : {"logits", "corners"}) {
    found.emplace_back(name, outputs.at(name).grad().norm().item<double>());
  }
  return found;
}

TEST(DetectionHostWaits, TheLossesOnADeviceAreThoseOnTheProcessor) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  at::manual_seed(2);
  Detector net(preset("scenes").model_options());
  const Targets targets = {objects(3), objects(0), objects(60)};
  const Outputs outputs = net.forward(at::rand({3, 3, 160, 160}), &targets);
  Outputs there = outputs;
  for (auto& [name, value] : there) {
    if (name == "dn_index" || name == "dn_weight" || name == "dense_sizes") continue;
    value = value.detach().to(testing::make_believe_gpu());
  }
  const auto expected = terms_of(outputs, targets);
  const auto found = terms_of(there, targets);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].first, expected[i].first);
    EXPECT_NEAR(found[i].second, expected[i].second, 1e-6 * std::abs(expected[i].second)) << found[i].first;
  }
}

/// Outputs and gradients of a network under autocast, with or without casting all weights at once.
std::vector<at::Tensor> trained(torch::nn::Sequential& net, LayersAtOnce& casts, bool at_once, const at::Tensor& x) {
  for (at::Tensor& parameter : net->parameters()) parameter.mutable_grad() = at::Tensor();
  at::Tensor out;
  {
    const Autocast autocast(c10::kCUDA, Amp::kBf16);
    std::optional<LayersAtOnce::Scope> scope;
    if (at_once) scope.emplace(casts);
    out = net->forward(x);
  }
  out.sum().backward();
  std::vector<at::Tensor> found = {out.cpu()};
  for (const at::Tensor& parameter : net->parameters()) {
    found.push_back(parameter.grad().defined() ? parameter.grad().cpu() : at::Tensor());
  }
  return found;
}

TEST(DetectionLayersAtOnce, GiveTheBitsOfAutocastsOwnInFewerCopies) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  at::manual_seed(3);
  torch::nn::Sequential net(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3)), torch::nn::ReLU(),
                            torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 4, 1)), torch::nn::Flatten(),
                            nn::Linear(4 * 36, 7), torch::nn::Linear(7, 5));
  use_channels_last(*net);
  net->to(testing::make_believe_gpu());
  const NamedTensors before = named_parameters_of(*net);
  LayersAtOnce casts(*net);
  const at::Tensor x = at::rand({2, 3, 8, 8}).to(testing::make_believe_gpu());
  const std::vector<at::Tensor> expected = trained(net, casts, false, x);
  const std::vector<at::Tensor> found = trained(net, casts, true, x);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(found[i].equal(expected[i])) << i;
    EXPECT_EQ(found[i].scalar_type(), expected[i].scalar_type());
  }
  const auto copies = [&](bool at_once) {
    const testing::HostWaits waits;
    static_cast<void>(trained(net, casts, at_once, x));
    return testing::HostWaits::calls("aten::copy_");
  };
  const int alone = copies(false);
  EXPECT_LE(copies(true), alone - 2 * (8 - 1)) << "8 weights, each cast and its gradient cast back";
  const auto* first = net->ptr(0)->as<torch::nn::Conv2d>();
  EXPECT_TRUE(first->weight.is_same(before.front().second)) << "the layers have their own weights again";
}

TEST(DetectionLayersAtOnce, AWeightThatTookNoPartHasAGradientOfZeros) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  auto other = std::make_shared<torch::nn::Module>();
  const nn::Linear used(4, 3);
  const nn::Linear left(4, 3);
  other->register_module("used", used.ptr());
  other->register_module("left", left.ptr());
  other->to(testing::make_believe_gpu());
  LayersAtOnce casts(*other);
  at::Tensor out;
  {
    const Autocast autocast(c10::kCUDA, Amp::kBf16);
    const LayersAtOnce::Scope scope(casts);
    out = used.ptr()->forward(at::ones({2, 4}).to(testing::make_believe_gpu()));
  }
  out.sum().backward();
  EXPECT_TRUE(used->weight.grad().cpu().equal(at::full({3, 4}, 2.0)));
  EXPECT_TRUE(left->weight.grad().cpu().equal(at::zeros({3, 4})));
}

TEST(DetectionLayersAtOnce, BatchNormsCountABatchEachAndKeepTheirCounts) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  torch::nn::Sequential net(nn::Linear(4, 4), nn::BatchNorm2d(3), nn::BatchNorm2d(3));
  net->to(testing::make_believe_gpu());
  const NamedTensors before = named_buffers_of(*net);
  LayersAtOnce layers(*net);
  const at::Tensor x = at::rand({2, 3, 4, 4}).to(testing::make_believe_gpu());
  for (int step = 0; step < 3; ++step) {
    const LayersAtOnce::Scope scope(layers);
    static_cast<void>(net->ptr(1)->as<nn::BatchNorm2d>()->forward(x));
  }
  EXPECT_EQ(net->ptr(1)->as<nn::BatchNorm2d>()->num_batches_tracked.item<std::int64_t>(), 3);
  EXPECT_FALSE(net->ptr(1)->as<nn::BatchNorm2d>()->running_mean.cpu().equal(at::zeros({3})));
  const NamedTensors after = named_buffers_of(*net);
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(after[i].second.is_same(before[i].second));
}

TEST(DetectionLayersAtOnce, KeepTheTypeOfWeightsWithoutAutocast) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  torch::nn::Sequential net(nn::Linear(4, 4));
  net->to(testing::make_believe_gpu());
  LayersAtOnce casts(*net);
  const LayersAtOnce::Scope scope(casts);
  EXPECT_EQ(net->ptr(0)->as<nn::Linear>()->weight.scalar_type(), at::kFloat);
}

}  // namespace detection_host_waits_test
}  // namespace lockstep::detection
