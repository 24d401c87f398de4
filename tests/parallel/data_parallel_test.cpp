// SPDX-License-Identifier: Apache-2.0
// DataParallel against DistributedDataParallel on the same number of ranks, and against a plain loop over the parts of
// a batch.
#include "lockstep/parallel/data_parallel.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <barrier>

#include "lockstep/base/error.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/tensor/random.h"
#include "parallel/replica_threads.h"
#include "support/fake_cuda.h"
#include "support/run_ranks.h"
#include "support/tree_model.h"

namespace lockstep {
namespace data_parallel_test {

using ::testing::Each;
using ::testing::HasSubstr;

struct NetImpl : torch::nn::Cloneable<NetImpl> {
  NetImpl() { reset(); }
  void reset() override {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 6, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(6));
    last = register_module("last", torch::nn::Linear(6 * 5 * 4, 3));
  }
  at::Tensor forward(const at::Tensor& x) { return last(norm(conv(x)).relu().flatten(1)); }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(Net);

Net make_net() {
  seed_all(3);
  return Net();
}

at::Tensor images(int step, std::int64_t count) {
  return at::randn({count, 1, 5, 4}, make_generator(static_cast<std::uint64_t>(step)));
}

template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.message();
  }
  return "nothing was thrown";
}

at::Tensor labels(int step, std::int64_t count) {
  return at::randint(3, {count}, make_generator(static_cast<std::uint64_t>(step)), at::kLong);
}

RANKS_TEST(DataParallel, TrainsAsDistributedDataParallelOnAsManyRanks, 4) {
  constexpr std::int64_t kEach = 3;
  Net plain = make_net();
  DataParallel threads(make_net(), {.replicas = 4});
  DistributedDataParallel ranks(plain, job);
  AdamW threads_optimizer(threads);
  AdamW ranks_optimizer(ranks);
  for (int step = 0; step < 4; ++step) {
    const at::Tensor batch = images(step, 4 * kEach);
    const at::Tensor target = labels(step, 4 * kEach);
    at::cross_entropy_loss(threads(batch), target).backward();
    const std::int64_t begin = kEach * job.rank();
    at::cross_entropy_loss(ranks(batch.narrow(0, begin, kEach)), target.narrow(0, begin, kEach)).backward();
    for (const auto& item : ranks.named_parameters()) {
      EXPECT_TRUE(at::allclose(threads.named_parameters()[item.key()].grad(), item.value().grad(), 1e-6, 1e-7))
          << item.key() << " in step " << step;
    }
    threads_optimizer.step();
    ranks_optimizer.step();
    threads_optimizer.zero_grad();
    ranks_optimizer.zero_grad();
  }
  if (!job.is_main()) return;  // the threads keep the batch-norm statistics of replica 0 (rank 0)
  for (const auto& item : ranks.named_buffers()) {
    EXPECT_TRUE(at::allclose(threads.named_buffers()[item.key()].to(at::kFloat), item.value().to(at::kFloat), 1e-5))
        << item.key();
  }
}

/// The gradients of sum(net(part) * weight) over the parts, each computed by a separate net, added in tree order.
std::vector<at::Tensor> expected_gradients(const std::vector<at::Tensor>& parts) {
  std::vector<std::vector<at::Tensor>> by_parameter(6);
  for (const at::Tensor& part : parts) {
    Net net = make_net();
    net->forward(part).pow(2).sum().backward();
    for (std::size_t i = 0; i < by_parameter.size(); ++i) by_parameter[i].push_back(net->parameters()[i].grad());
  }
  std::vector<at::Tensor> sums;
  for (const auto& gradients : by_parameter) sums.push_back(comm::model(gradients, ReduceOp::kSum));
  return sums;
}

TEST(DataParallel, AddsGradientsInTreeOrderWhateverTheThreadsDo) {
  at::set_num_threads(1);
  for (const int replicas : {1, 2, 3, 5}) {
    const at::Tensor batch = images(1, 4 * replicas);
    const auto expected = expected_gradients(batch.split(4));
    DataParallel model(make_net(), {.replicas = replicas, .threads = 1});
    for (int run = 0; run < 10; ++run) {
      model.module().zero_grad();
      for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad().reset();
      model(batch).pow(2).sum().backward();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_TRUE(comm::same_bits(model.parameters()[i].grad(), expected[i]))
            << "parameter " << i << " in run " << run << " of " << replicas;
      }
    }
  }
}

/// Both ways to run two replicas: threads with separate graphs, and one graph over devices.
class BothWays : public ::testing::TestWithParam<bool> {
 protected:
  static DataParallelOptions two() {
    const c10::Device cpu(c10::kCPU);
    return GetParam() ? DataParallelOptions{.devices = {cpu, cpu}} : DataParallelOptions{.replicas = 2};
  }
};

INSTANTIATE_TEST_SUITE_P(DataParallel, BothWays, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "Devices" : "Threads"; });

TEST_P(BothWays, GradientsAccumulateAndTwoForwardsMayGoBeforeABackward) {
  DataParallel model(make_net(), two());
  const at::Tensor a = model(images(1, 4)).pow(2).sum();
  const at::Tensor b = model(images(2, 4)).pow(2).sum();
  (a + b).backward();
  const auto expected = expected_gradients(images(1, 4).split(2));
  const auto more = expected_gradients(images(2, 4).split(2));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(at::allclose(model.parameters()[i].grad(), expected[i] + more[i], 1e-4, 1e-4));
  }
  EXPECT_EQ(model.module().norm->num_batches_tracked.item<std::int64_t>(), 2);
}

TEST(DataParallel, OnDevicesItComputesTheSame) {
  DataParallel threads(make_net(), {.replicas = 2});
  DataParallel devices(make_net(), {.devices = {c10::Device(c10::kCPU), c10::Device(c10::kCPU)}});
  EXPECT_EQ(devices.replicas(), 2);
  for (int step = 0; step < 2; ++step) {
    at::Tensor left = images(step, 5).requires_grad_(true);
    at::Tensor right = images(step, 5).requires_grad_(true);
    const at::Tensor a = threads(left);
    const at::Tensor b = devices(right);
    EXPECT_TRUE(at::allclose(a, b, 1e-5, 1e-6));
    a.pow(2).sum().backward();
    b.pow(2).sum().backward();
    EXPECT_TRUE(at::allclose(left.grad(), right.grad(), 1e-5, 1e-6));
  }
  for (const auto& item : threads.named_parameters()) {
    EXPECT_TRUE(at::allclose(devices.named_parameters()[item.key()].grad(), item.value().grad(), 1e-4, 1e-5));
  }
  for (const auto& item : threads.named_buffers()) {
    const at::Tensor other = devices.named_buffers()[item.key()];
    EXPECT_TRUE(at::allclose(other.to(at::kFloat), item.value().to(at::kFloat), 1e-5)) << item.key();
  }
}

TEST(DataParallel, GivesTheGradientOfItsInput) {
  DataParallel model(make_net(), {.replicas = 3});
  at::Tensor input = images(1, 7).requires_grad_(true);
  model.eval();
  model(input).pow(2).sum().backward();
  Net net = make_net();
  net->eval();
  at::Tensor again = images(1, 7).requires_grad_(true);
  net->forward(again).pow(2).sum().backward();
  EXPECT_TRUE(at::allclose(input.grad(), again.grad(), 1e-5, 1e-6));
}

TEST_P(BothWays, FollowsWhatTheModuleBecomes) {
  DataParallel model(make_net(), two());
  model(images(1, 4)).sum().backward();
  {
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : model.parameters()) parameter.mul_(2);
    model.module().conv->weight.set_data(at::zeros({6, 1, 3, 3}));
  }
  model.module().last->weight.requires_grad_(false);
  model.module().norm->eval();  // a frozen layer in a module that trains
  const at::Tensor batch = images(2, 4);
  const at::Tensor whole = model(batch);
  EXPECT_TRUE(at::allclose(whole, model.module().forward(batch), 1e-5, 1e-6));
  EXPECT_EQ(model.module().norm->num_batches_tracked.item<std::int64_t>(), 1);
  for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad().reset();
  whole.sum().backward();
  EXPECT_TRUE(model.module().last->bias.grad().defined());
  EXPECT_FALSE(model.module().last->weight.grad().defined()) << "it needs none any more";
}

/// Counts its own instances.
struct CountedImpl : torch::nn::Cloneable<CountedImpl> {
  explicit CountedImpl(int* made) : made_(made) { reset(); }
  void reset() override {
    ++*made_;
    last = register_module("last", torch::nn::Linear(2, 1));
  }
  at::Tensor forward(const at::Tensor& x) { return last(x); }
  torch::nn::Linear last{nullptr};

 private:
  int* made_;
};

TEST_P(BothWays, TheReplicasAreMadeOnceAndNotInEachForward) {
  int made = 0;
  DataParallel model(std::make_shared<CountedImpl>(&made), two());
  const int at_first = made;
  for (int step = 0; step < 3; ++step) model(at::zeros({4, 2})).sum().backward();
  EXPECT_EQ(made, at_first);
}

TEST_P(BothWays, AParameterThatChangesBeforeBackwardIsRefused) {
  DataParallel model(make_net(), two());
  const at::Tensor loss = model(images(1, 4)).sum();
  {
    const at::NoGradGuard no_grad;
    model.module().last->weight.add_(1);
  }
  EXPECT_EQ(error_of([&] { loss.backward(); }),
            "parameter 'last.weight' was changed between DataParallel's forward and backward");
}

TEST_P(BothWays, AnOptimizersStepBeforeBackwardIsRefused) {
  DataParallel model(make_net(), two());
  AdamW optimizer(model);
  model(images(1, 4)).sum().backward();
  const at::Tensor loss = model(images(2, 4)).sum();
  optimizer.step();
  EXPECT_THAT(error_of([&] { loss.backward(); }), HasSubstr("was changed between DataParallel's forward and backward"));
}

/// A net whose forward() is a function that the test provides.
struct CustomImpl : torch::nn::Cloneable<CustomImpl> {
  using Forward = std::function<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, double)>;
  explicit CustomImpl(Forward what) : forward_(std::move(what)) { reset(); }
  void reset() override { weight = register_parameter("weight", at::zeros({2})); }
  std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x, double factor) { return forward_(x, factor); }
  at::Tensor weight;
  Forward forward_;
};

TEST(DataParallel, TakesPlainArgumentsAndGivesTuplesAndScalars) {
  DataParallel model(std::make_shared<CustomImpl>([](const at::Tensor& x, double factor) {
                       return std::tuple{x * factor, x.sum()};
                     }),
                     {.replicas = 3});
  const auto [scaled, sums] = model(at::arange(4, at::kFloat).view({4, 1}), 2.0);
  EXPECT_TRUE(at::equal(scaled, at::arange(4, at::kFloat).view({4, 1}) * 2));
  EXPECT_EQ(sums.sizes(), (std::vector<std::int64_t>{2}));  // parts of 2 samples each: the third replica is idle
  EXPECT_EQ(sums[0].item<float>(), 1);
  EXPECT_EQ(sums[1].item<float>(), 5);
}

TEST(DataParallel, ReplicasRunAtTheSameTimeForwardAndBackward) {
  std::barrier together(3);  // would never open if the replicas ran one at a time
  DataParallel model(std::make_shared<CustomImpl>([&](const at::Tensor& x, double) {
                       together.arrive_and_wait();
                       at::Tensor y = x * 1;
                       y.register_hook([&](const at::Tensor&) { together.arrive_and_wait(); });
                       return std::tuple{y, x.sum()};
                     }),
                     {.replicas = 3});
  std::get<0>(model(at::zeros({3, 1}).requires_grad_(true), 1.0)).sum().backward();
}

TEST(DataParallel, CarriesGradientModeAndAutocastIntoTheThreads) {
  const int threads = at::get_num_threads();
  std::atomic<int> right = 0;
  DataParallel model(std::make_shared<CustomImpl>([&](const at::Tensor& x, double) {
                       const auto state = tensor::autocast_state(c10::kCPU);
                       right += state.enabled && !at::GradMode::is_enabled() && at::get_num_threads() == 2;
                       return std::tuple{at::matmul(x, x.t()), x.sum()};
                     }),
                     {.replicas = 2, .threads = 2});
  const NoGrad no_grad;
  const Autocast autocast(c10::kCPU, Amp::kBf16);
  EXPECT_EQ(std::get<0>(model(at::zeros({2, 1}), 1.0)).scalar_type(), at::kBFloat16);
  EXPECT_EQ(right, 2);
  EXPECT_EQ(at::get_num_threads(), threads);
}

TEST(DataParallel, SaysWhatCannotBe) {
  struct Plain : torch::nn::Module {
    at::Tensor forward(const at::Tensor& x) { return x; }
  };
  EXPECT_THAT(error_of([] { DataParallel model(std::make_shared<Plain>(), {.replicas = 2}); }),
              HasSubstr("DataParallel cannot copy the module"));
  EXPECT_EQ(error_of([] { DataParallel model(make_net(), {.replicas = 3, .devices = {c10::Device(c10::kCPU)}}); }),
            "DataParallelOptions::replicas is 3 with 1 devices");
  struct Two : torch::nn::Cloneable<Two> {
    void reset() override {}
    at::Tensor forward(const at::Tensor& x, const at::Tensor& y) { return x + y.sum(); }
  };
  DataParallel two(std::make_shared<Two>(), {.replicas = 2});
  EXPECT_EQ(error_of([&] { two(at::zeros({2}), at::zeros({3})); }), "DataParallel got tensors of 2 and 3 samples");
  EXPECT_EQ(error_of([&] { two(at::zeros({}), at::zeros({})); }), "DataParallel got no tensor with a batch to split");
}

TEST(DataParallel, RefusesABackwardThatWouldBeWrong) {
  DataParallel model(make_net(), {.replicas = 2});
  at::Tensor loss = model(images(1, 4)).sum();
  EXPECT_EQ(error_of([&] { loss.backward({}, c10::nullopt, /*create_graph=*/true); }),
            "second derivatives through DataParallel are not supported");
  loss = model(images(1, 4)).sum();
  loss.backward({}, /*retain_graph=*/true);
  loss.backward();
}

TEST(ReplicaThreads, ComputeOnTheStreamsOfTheirCaller) {
  const testing::FakeCuda gpus(1);
  parallel::ReplicaThreads threads(3, 1);
  for (const int stream : {5, 0}) {
    const testing::OnStream current(2, stream);
    std::vector<std::int64_t> found(3);
    threads.run(3, [&](int index) { found[static_cast<std::size_t>(index)] = testing::FakeCuda::stream_of(2); });
    EXPECT_THAT(found, Each(stream));
  }
}

TEST(DataParallel, TheFirstFailingReplicasErrorIsTheCallers) {
  DataParallel model(
      std::make_shared<CustomImpl>([](const at::Tensor& x, double) -> std::tuple<at::Tensor, at::Tensor> {
        throw DataError(x.item<float>() == 0 ? "the first" : "the second");
      }),
      {.replicas = 2});
  for (int i = 0; i < 5; ++i) {
    try {
      model(at::arange(2, at::kFloat), 1.0);
      ADD_FAILURE() << "the error was lost";
    } catch (const DataError& error) {
      EXPECT_EQ(error.message(), "the first");
    }
  }
}

}  // namespace data_parallel_test
}  // namespace lockstep
