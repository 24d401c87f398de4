// SPDX-License-Identifier: Apache-2.0
// Hooks and layers of several replicas on a device: they never wait for it, and give the same results as on the host.
#include "support/host_waits.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <limits>

#include "lockstep/comm/job.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/power_sgd.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/parallel/zero.h"
#include "lockstep/tensor/random.h"

namespace lockstep {
namespace device_waits_test {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::HostWaits;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("first", first);
    register_module("last", last);
  }
  at::Tensor forward(const at::Tensor& x) { return last(first(x).tanh()).square().mean(); }
  torch::nn::Linear first{12, 16};
  torch::nn::Linear last{16, 10};
};

/// Two replicas of one rank.
class Training {
 public:
  Training(const c10::Device& device, const std::shared_ptr<PowerSgd>& hook) : job_(job_on(device)) {
    seed_all(3);
    auto net = std::make_shared<NetImpl>();
    net->to(device);
    DdpOptions options{.replicas = 2, .bucket_bytes = 300};
    options.hook = hooks::power_sgd(hook);
    ddp_.emplace(net, job_, options);
    team_.emplace(job_.group(),
                  ReplicaTeamOptions{.replicas = 2, .on_switch = [this](int local) { ddp_->enter_replica(local); }});
    for (int replica = 0; replica < 2; ++replica) inputs_.push_back(at::randn({9, 12}).to(device));
  }

  void step(double factor = 1) {
    for (at::Tensor& parameter : ddp_->parameters()) parameter.mutable_grad().reset();
    team_->run(
        [&](Replica& replica) { ((*ddp_)(inputs_[static_cast<std::size_t>(replica.index())]) * factor).backward(); });
  }
  [[nodiscard]] std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> found;
    for (const at::Tensor& parameter : ddp_->parameters()) found.push_back(parameter.grad().cpu());
    return found;
  }

 private:
  static Job job_on(const c10::Device& device) {
    const char* program = "test";
    return init(1, &program, {.device = device, .replicas = 2});
  }

  Job job_;
  std::optional<DistributedDataParallel<NetImpl>> ddp_;
  std::optional<ReplicaTeam> team_;
  std::vector<at::Tensor> inputs_;
};

double difference(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other) {
  double most = 0;
  for (std::size_t i = 0; i < one.size(); ++i) most = std::max(most, (one[i] - other[i]).abs().max().item<double>());
  return most;
}

/// Two replicas with the same batch.
class SameTwice final : public nn::StatisticsSync {
 public:
  [[nodiscard]] int replicas() const override { return 2; }
  void all_reduce(const at::Tensor& values) override { values.mul_(2); }
};

/// The layer's output, the gradients of input and weight, and its running variance, after two steps.
std::vector<at::Tensor> normalized_on(const c10::Device& device) {
  seed_all(4);
  const at::Tensor x = at::randn({9, 16}).to(device).requires_grad_();
  nn::BatchNorm1d norm(16);
  norm->to(device);
  norm->set_statistics_sync(std::make_shared<SameTwice>());
  at::Tensor y;
  for (int i = 0; i < 2; ++i) {
    y = norm(x);
    y.pow(3).sum().backward();
  }
  return {y.detach(), x.grad(), norm->weight.grad(), norm->running_var};
}

TEST(DeviceSyncBatchNorm, IsTheHostsAndWaitsForNoCount) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  const std::vector<at::Tensor> here = normalized_on(c10::kCPU);
  const HostWaits waits;
  const std::vector<at::Tensor> there = normalized_on(testing::make_believe_gpu());
  EXPECT_THAT(waits.found(), Each(HasSubstr("to the device"))) << "weights, buffers and input";
  for (std::size_t i = 0; i < here.size(); ++i) {
    EXPECT_LT((there[i].cpu() - here[i]).abs().max().item<double>(), 1e-4) << i;
  }
}

/// The norm of sharded gradients: a single wait for the value, however many parameters there are.
TEST(DeviceZero, ReadsItsNormOnce) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  std::vector<double> norms;
  for (const c10::Device& device : {c10::Device(c10::kCPU), testing::make_believe_gpu()}) {
    seed_all(3);
    const char* program = "test";
    const Job job = init(1, &program, {.device = device});
    auto net = std::make_shared<NetImpl>();
    net->to(device);
    DistributedDataParallel<NetImpl> ddp(net, job);
    ZeroRedundancyOptimizer zero(
        named_parameters_of(ddp), job.group(),
        [](NamedTensors parts) { return std::make_unique<Adam>(std::move(parts), AdamOptions{}); },
        ddp.shared_reducer());
    ddp(at::randn({9, 12}).to(device)).backward();
    const HostWaits waits;
    norms.push_back(zero.grad_norm());
    EXPECT_THAT(waits.found(), SizeIs(device.is_cpu() ? 0 : 1));
  }
  EXPECT_NEAR(norms[0], norms[1], 1e-6);
}

/// A whole state would not fit on one rank's GPU.
TEST(DeviceZero, GathersItsStateInHostMemory) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  const char* program = "test";
  const Job job = init(1, &program, {.device = testing::make_believe_gpu()});
  auto net = std::make_shared<NetImpl>();
  net->to(testing::make_believe_gpu());
  ZeroRedundancyOptimizer zero(named_parameters_of(*net), job.group(), [](NamedTensors parts) {
    return std::make_unique<Adam>(std::move(parts), AdamOptions{});
  });
  const auto step = [&] {
    zero.zero_grad();
    net->forward(at::randn({9, 12}).to(testing::make_believe_gpu())).backward();
    zero.step();
  };
  step();
  zero.consolidate_state_dict();
  const StateDict whole = zero.state_dict();
  int tensors = 0;
  for (const auto& [name, value] : zero.local().state_dict()) {
    const auto* own = std::get_if<at::Tensor>(&value);
    if (own == nullptr || own->numel() < 2) continue;
    const auto& gathered = std::get<at::Tensor>(whole.at(name));
    EXPECT_TRUE(gathered.is_cpu()) << name;
    EXPECT_TRUE(own->is_cuda()) << name;
    EXPECT_TRUE(gathered.flatten().equal(own->cpu())) << name;
    ++tensors;
  }
  EXPECT_EQ(tensors, 8) << "two moments of four parameters";
  const auto weights = net->first->weight.detach().cpu().clone();
  step();
  zero.load_state_dict(whole);
  EXPECT_EQ(zero.steps(), 1);
  EXPECT_FALSE(net->first->weight.detach().cpu().equal(weights));
}

TEST(DevicePowerSgd, IsTheHostsAndWaitsForNoNorm) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  const PowerSgdOptions options{.rank = 3, .start_iter = 1, .min_compression_rate = 1};
  Training on_host(c10::kCPU, std::make_shared<PowerSgd>(options));
  Training on_device(testing::make_believe_gpu(), std::make_shared<PowerSgd>(options));
  for (int i = 0; i < 2; ++i) on_device.step();
  {
    const HostWaits waits;
    for (int i = 0; i < 3; ++i) on_device.step();
    EXPECT_THAT(waits.found(), IsEmpty());
  }
  for (int i = 0; i < 5; ++i) on_host.step();
  EXPECT_LT(difference(on_device.gradients(), on_host.gradients()), 1e-5);
}

/// The state as a checkpoint returns it.
StateDict on_host(const StateDict& state) {
  StateDict found;
  for (const auto& [name, value] : state) {
    const auto* tensor = std::get_if<at::Tensor>(&value);
    found[name] = tensor == nullptr ? value : StateValue(tensor->cpu());
  }
  return found;
}

TEST(DevicePowerSgd, GoesOnFromAStateInHostMemory) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  const PowerSgdOptions options{.rank = 3, .start_iter = 0, .min_compression_rate = 1};
  const auto hook = std::make_shared<PowerSgd>(options);
  Training whole(testing::make_believe_gpu(), hook);
  for (int i = 0; i < 3; ++i) whole.step();
  const auto loaded = std::make_shared<PowerSgd>(options);
  loaded->load_state_dict(on_host(hook->state_dict()));
  Training resumed(testing::make_believe_gpu(), loaded);
  for (int i = 0; i < 2; ++i) {
    whole.step();
    resumed.step();
    EXPECT_LT(difference(resumed.gradients(), whole.gradients()), 1e-5) << "step " << i;
  }
  for (const auto& [name, value] : loaded->state_dict()) {
    const auto* tensor = std::get_if<at::Tensor>(&value);
    if (tensor != nullptr) {
      EXPECT_TRUE(tensor->is_cuda()) << name;
    }
  }
}

TEST(DevicePowerSgd, KeepsItsStateOverAGradientThatIsNotFinite) {
  LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU();
  const PowerSgdOptions options{.rank = 3, .start_iter = 0, .min_compression_rate = 1};
  const auto hook = std::make_shared<PowerSgd>(options);
  Training training(testing::make_believe_gpu(), hook);
  for (int i = 0; i < 2; ++i) training.step();
  const StateDict before = on_host(hook->state_dict());
  training.step(std::numeric_limits<double>::infinity());
  for (const auto& [name, value] : hook->state_dict()) {
    const auto* tensor = std::get_if<at::Tensor>(&value);
    if (tensor == nullptr) continue;
    EXPECT_TRUE(tensor->cpu().equal(std::get<at::Tensor>(before.at(name)))) << name;
  }
  training.step();
  for (const at::Tensor& gradient : training.gradients()) EXPECT_TRUE(gradient.isfinite().all().item<bool>());
}

}  // namespace device_waits_test
}  // namespace lockstep
