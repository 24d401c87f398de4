// SPDX-License-Identifier: Apache-2.0
// Each optimizer's steps on a GPU, with libtorch's operators, against its kernel's steps on the CPU.
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "lockstep/optim/clip.h"
#include "lockstep/optim/ema.h"
#include "lockstep/optim/make_optimizer.h"
#include "lockstep/tensor/device.h"
#include "lockstep/tensor/random.h"

namespace lockstep {
namespace {

struct Case {
  const char* type;
  OptimizerOptions options;
};

NamedTensors parameters_on(const c10::Device& device) {
  seed_all(2);
  return {{"weight", at::randn({64, 33}).to(device)},
          {"conv", at::randn({8, 4, 3, 3}).to(device).contiguous(at::MemoryFormat::ChannelsLast)},
          {"strided", at::randn({30, 2}).to(device).select(1, 0)},
          {"bias", at::randn({7}).to(device)}};
}

NamedTensors trained_on(const c10::Device& device, const Case& one) {
  NamedTensors parameters = parameters_on(device);
  const auto optimizer = make_optimizer(one.type, parameters, one.options);
  for (int step = 0; step < 10; ++step) {
    for (const auto& [name, value] : parameters) {
      const bool without = name == "bias" && step == 2;
      value.mutable_grad() = without ? at::Tensor() : at::randn(value.sizes()).to(device);
    }
    optimizer->step(0.5);
  }
  return parameters;
}

TEST(OptimizersOnAGpu, TakeTheCpusSteps) {
  if (!tensor::has_cuda() || tensor::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU here";
  const std::vector<ParameterGroup> groups{{.pattern = "^conv$", .lr = 0.002, .weight_decay = 0.1}};
  const std::vector<Case> cases{
      {"AdamW", {.groups = groups}},
      {"AdamW", {.betas = std::array{0.8, 0.9}, .amsgrad = true}},
      {"Adam", {.weight_decay = 0.1, .groups = groups}},
      {"SGD", {.lr = 0.01}},
      {"SGD", {.lr = 0.01, .momentum = 0.9, .dampening = 0.5, .groups = groups}},
      {"SGD", {.lr = 0.01, .momentum = 0.9, .nesterov = true}},
      {"RMSprop", {.eps = 1e-3, .momentum = 0.9, .centered = true}},
      {"Adagrad", {.lr_decay = 0.1}},
      {"LAMB", {.groups = groups}},
      {"LARS", {.trust = 0.1}},
      {"Lion", {.weight_decay = 0.1}},
  };
  for (const Case& one : cases) {
    const NamedTensors here = trained_on(c10::kCPU, one);
    const NamedTensors there = trained_on(c10::Device(c10::kCUDA, 0), one);
    for (std::size_t i = 0; i < here.size(); ++i) {
      EXPECT_TRUE(there[i].second.cpu().allclose(here[i].second, 1e-5, 1e-5)) << one.type << ' ' << here[i].first;
    }
  }
}

TEST(OptimizersOnAGpu, ChangeWeightsSoThatABackwardWhichNeedsTheOldOnesThrows) {
  if (!tensor::has_cuda() || tensor::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU here";
  for (const std::string& type : optimizer_types()) {
    const at::Tensor w = at::randn({3}).to(c10::Device(c10::kCUDA, 0)).requires_grad_();
    const at::Tensor loss = w.square().sum();
    w.mutable_grad() = w.detach().clone();
    make_optimizer(type, {{"w", w}}, {})->step();
    EXPECT_THROW(loss.backward(), c10::Error) << type;
  }
}

/// Returns the parameters and their moving averages after five steps with clipped gradients.
NamedTensors clipped_on(const c10::Device& device) {
  NamedTensors parameters = parameters_on(device);
  const auto optimizer = make_optimizer("AdamW", parameters, {});
  EMA average(parameters, {.decay = 0.5});
  for (int step = 0; step < 5; ++step) {
    for (const auto& [name, value] : parameters) value.mutable_grad() = at::randn(value.sizes()).to(device);
    if (device.is_cpu()) {
      optimizer->step(clip_factor(grad_norm(parameters), 20));
    } else {
      optimizer->step_scaled_by(clip_factor(optim::norm_of_norms(optim::device_norms(parameters)), 20));
    }
    average.update();
  }
  EXPECT_LT(clip_factor(grad_norm(parameters), 20), 1);
  for (const auto& [name, value] : ema_state_of(average.state_dict()).model) {
    parameters.emplace_back("average of " + name, std::get<at::Tensor>(value));
  }
  return parameters;
}

TEST(OptimizersOnAGpu, ClipAndAverageAsTheCpuDoes) {
  if (!tensor::has_cuda() || tensor::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU here";
  const NamedTensors here = clipped_on(c10::kCPU);
  const NamedTensors there = clipped_on(c10::Device(c10::kCUDA, 0));
  for (std::size_t i = 0; i < here.size(); ++i) {
    EXPECT_TRUE(there[i].second.cpu().allclose(here[i].second, 1e-5, 1e-5)) << here[i].first;
  }
}

}  // namespace
}  // namespace lockstep
