// SPDX-License-Identifier: Apache-2.0
// Clipping and averaging on a device: the host never waits, and a list of tensors takes one launch.
#include "support/host_waits.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip.h"
#include "lockstep/optim/ema.h"
#include "lockstep/tensor/random.h"

namespace lockstep {
namespace device_waits_test {

using ::testing::ElementsAre;
using testing::HostWaits;
using ::testing::IsEmpty;

constexpr int kParameters = 12;

/// Parameters with gradients, identical on every device.
NamedTensors parameters_on(const c10::Device& device) {
  seed_all(5);
  NamedTensors parameters;
  for (int i = 0; i < kParameters; ++i) {
    const at::Tensor value = at::randn({i + 1, 3}).to(device).requires_grad_();
    value.mutable_grad() = at::randn({i + 1, 3}).to(device);
    parameters.emplace_back("weight_" + std::to_string(i), value);
  }
  return parameters;
}

double difference(const NamedTensors& one, const NamedTensors& other) {
  double most = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const at::Tensor off = one[i].second.detach().cpu() - other[i].second.detach().cpu();
    most = std::max(most, off.abs().max().item<double>());
  }
  return most;
}

NamedTensors gradients_of(const NamedTensors& parameters) {
  NamedTensors gradients;
  for (const auto& [name, value] : parameters) gradients.emplace_back(name, value.grad());
  return gradients;
}

TEST(DeviceClip, HasTheFactorOfTheHostsAndTheHostDoesNotWait) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  const NamedTensors there = parameters_on(testing::make_believe_gpu());
  const NamedTensors here = parameters_on(c10::kCPU);
  Adam on_device(there, {});
  Adam on_host(here, {});
  for (int step = 0; step < 3; ++step) {
    const HostWaits waits;
    const at::Tensor norm = optim::norm_of_norms(optim::device_norms(there));
    on_device.step_scaled_by(clip_factor(norm, 0.5));
    EXPECT_THAT(waits.found(), IsEmpty());
    EXPECT_EQ(waits.calls("aten::_foreach_norm"), 1);
    EXPECT_EQ(waits.calls("aten::linalg_vector_norm"), 1) << "one launch for each parameter";
    on_host.step(clip_factor(grad_norm(here), 0.5));
  }
  EXPECT_LT(difference(there, here), 1e-6);
}

TEST(DeviceClip, OfGradientsInPlaceWaitsForTheNormThatItReturnsOnly) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  const NamedTensors there = parameters_on(testing::make_believe_gpu());
  const NamedTensors here = parameters_on(c10::kCPU);
  const HostWaits waits;
  const double norm = clip_grad_norm(there, 0.5);
  EXPECT_THAT(waits.found(), ElementsAre("aten::_local_scalar_dense"));
  EXPECT_NEAR(norm, clip_grad_norm(here, 0.5), 1e-5);
  EXPECT_LT(difference(gradients_of(there), gradients_of(here)), 1e-6);
}

TEST(DeviceClip, OfGradientsOnTheHostReadsTheFactor) {
  const NamedTensors one = parameters_on(c10::kCPU);
  const NamedTensors other = parameters_on(c10::kCPU);
  Adam by_number(one, {});
  Adam by_tensor(other, {});
  by_number.step(0.25);
  by_tensor.step_scaled_by(at::full({}, 0.25, at::kDouble));
  EXPECT_EQ(difference(one, other), 0);
}

TEST(DeviceEma, IsTheHostsInOneLaunchForAllEntries) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  const auto with_counts = [](const c10::Device& device) {
    NamedTensors entries = parameters_on(device);
    entries.emplace_back("batches", at::full({}, 3, at::TensorOptions(device).dtype(at::kLong)));
    return entries;
  };
  const NamedTensors there = with_counts(testing::make_believe_gpu());
  const NamedTensors here = with_counts(c10::kCPU);
  EMA on_device(there, {.decay = 0.9});
  EMA on_host(here, {.decay = 0.9});
  for (const NamedTensors& model : {there, here}) {
    const at::NoGradGuard no_grad;
    for (const auto& item : model) at::Tensor(item.second).add_(1);
  }
  {
    const HostWaits waits;
    on_device.update();
    EXPECT_THAT(waits.found(), IsEmpty());
    EXPECT_EQ(waits.calls("aten::mul") + waits.calls("aten::mul_"), 0) << "one launch for each entry";
    EXPECT_EQ(waits.calls("aten::_foreach_mul_"), 1);
  }
  on_host.update();
  const EMAState own = ema_state_of(on_device.state_dict());
  const EMAState theirs = ema_state_of(on_host.state_dict());
  for (const auto& [name, value] : theirs.model) {
    const at::Tensor off = std::get<at::Tensor>(own.model.at(name)).cpu() - std::get<at::Tensor>(value);
    EXPECT_LT(off.abs().max().item<double>(), 1e-6) << name;
  }
}

}  // namespace device_waits_test
}  // namespace lockstep
