// SPDX-License-Identifier: Apache-2.0
// DistributedDataParallel against PyTorch's, with each option.
#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <functional>

#include "lockstep/optim/adamw.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/power_sgd.h"
#include "support/recomputed.h"
#include "support/run_ranks.h"
#include "tensor/golden.h"

namespace lockstep {
namespace ddp_golden_test {

using test::to_tensor;
using Json = nlohmann::json;

// Repeats five steps of PyTorch's DistributedDataParallel with its weights and data (golden/make_ddp.py).

struct Net : torch::nn::Module {
  Net() {
    register_module("conv", conv);
    register_module("norm", norm);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor features = at::max_pool2d(norm(conv(images)).relu(), 2);
    return fc2(fc1(features.flatten(1)).relu());
  }
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(1, 6, 3).padding(1).bias(false)};
  torch::nn::BatchNorm2d norm{6};
  torch::nn::Linear fc1{6 * 4 * 4, 24};
  torch::nn::Linear fc2{24, 10};
};

NamedTensors floating_state(Net& net) {
  NamedTensors items = named_parameters_of(net);
  for (const auto& item : named_buffers_of(net)) {
    if (item.second.is_floating_point()) items.push_back(item);
  }
  return items;
}

void load(Net& net, const Json& dumped) {
  StateDict state;
  for (const auto& [name, value] : dumped.items()) state.emplace(name, to_tensor(value));
  load_tensors(floating_state(net), state);
}

RANKS_TEST(DistributedDataParallelGolden, FiveStepsOnTwoRanksEqualPyTorchs, 2) {
  const Json golden = test::read_golden("parallel/golden/ddp.json");
  Net net;
  if (job.is_main()) load(net, golden.at("start"));
  // Buckets smaller than the largest parameter, so that there are several to reduce and rebuild.
  DistributedDataParallel model(std::move(net), job, {.first_bucket_bytes = 256, .bucket_bytes = 2048});
  AdamW optimizer(model, {.lr = 6e-4});
  const auto rank = static_cast<std::size_t>(job.rank());
  for (std::size_t step = 0; step < golden.at("batches").size(); ++step) {
    const Json& batch = golden.at("batches")[step][rank];
    const at::Tensor labels = at::tensor(batch.at("labels").get<std::vector<std::int64_t>>());
    const at::Tensor loss = at::cross_entropy_loss(model(to_tensor(batch.at("images"))), labels);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    const double expected = golden.at("losses")[rank][step];
    EXPECT_NEAR(loss.item<double>(), expected, 1e-5 * expected) << "step " << step;
  }
  for (const auto& [name, value] : floating_state(model.module())) {
    if (name.find("running") != std::string::npos && !job.is_main()) continue;  // each rank ends with its own batch
    const at::Tensor expected = to_tensor(golden.at("end").at(name));
    const double error = value.detach().sub(expected).norm().item<double>() / expected.norm().item<double>();
    EXPECT_LT(error, 1e-5) << name;
    EXPECT_LT(test::relative_difference(value, expected, 1e-2), 1e-4) << name;
  }
}

}  // namespace ddp_golden_test

namespace ddp_options_golden_test {

using Json = nlohmann::json;

// Each option, compared with PyTorch's DistributedDataParallel on two ranks (golden/make_ddp_options.py).

/// The same as wave() in the script.
at::Tensor wave(int seed, at::IntArrayRef shape) {
  const at::Tensor tensor = at::empty(shape, at::kFloat);
  auto* values = tensor.data_ptr<float>();
  for (std::int64_t index = 0; index < tensor.numel(); ++index) {
    const auto i = static_cast<double>(index);
    values[index] = static_cast<float>(0.5 * std::sin(0.3 + 37 * seed + 1.7 * i + 0.9 * i * i));
  }
  return tensor;
}

at::Tensor batch(int step, const Job& job) { return wave(100 * step + job.rank() + 1, {5, 3}); }

template <class Net>
std::shared_ptr<Net> filled() {
  auto net = std::make_shared<Net>();
  const at::NoGradGuard no_grad;
  int seed = 0;
  for (const auto& item : named_parameters_of(*net)) item.second.detach().copy_(wave(seed++, item.second.sizes()));
  return net;
}

/// This rank's results in case `name`.
Json golden(const std::string& name, const Job& job) {
  static const Json all = test::read_golden("parallel/golden/ddp_options.json");
  return all.at("ranks")[static_cast<std::size_t>(job.rank())].at(name);
}

void expect_near(const at::Tensor& value, const Json& expected, const std::string& what, double tolerance = 1e-5) {
  ASSERT_EQ(value.defined(), !expected.is_null()) << what;
  if (!value.defined()) return;
  EXPECT_LT(test::relative_difference(value, test::to_tensor(expected), 1e-2), tolerance) << what;
}

template <class Net>
void expect_gradients(Net& net, const Json& expected, const std::string& what, double tolerance = 1e-5) {
  for (const auto& [name, value] : named_parameters_of(net)) {
    expect_near(value.grad(), expected.at(name), what + " " + name, tolerance);
  }
}

void backward(const at::Tensor& output) { output.square().mean().backward(); }

struct Plain : torch::nn::Module {
  Plain() {
    register_module("fc", fc);
    register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& x) { return head(fc(x).tanh()); }
  torch::nn::Linear fc{3, 4};
  torch::nn::Linear head{4, 2};
};

struct Branched : Plain {
  Branched() {
    register_module("branch", branch);
    register_module("never", never);
  }
  at::Tensor forward(const at::Tensor& x, bool with_branch) {
    const at::Tensor y = Plain::forward(x);
    return with_branch ? y + branch(x) : y;
  }
  torch::nn::Linear branch{3, 2};
  torch::nn::Linear never{2, 1};
};

struct Repeated : torch::nn::Module {
  Repeated() {
    register_module("fc", fc);
    register_module("head", head);
    register_module("never", never);
  }
  at::Tensor forward(at::Tensor x) {
    for (int i = 0; i < 2; ++i) x = testing::recomputed(segment, x);
    return head(x);
  }
  testing::Segment segment = [this](const at::Tensor& x) { return fc(x).tanh(); };
  torch::nn::Linear fc{3, 3};
  torch::nn::Linear head{3, 2};
  torch::nn::Linear never{2, 1};
};

struct Normed : torch::nn::Module {
  Normed() { register_module("norm", norm); }
  at::Tensor forward(const at::Tensor& x) { return norm(x); }
  torch::nn::BatchNorm1d norm{3};
};

RANKS_TEST(DdpGolden, FindUnusedParameters, 2) {
  for (const bool zero : {true, false}) {
    DistributedDataParallel model(filled<Branched>(), job, {.find_unused_parameters = true});
    const Json steps = golden(zero ? "find_unused" : "find_unused_accumulated", job);
    for (int step = 0; step < 3; ++step) {
      if (zero) model.module().zero_grad(/*set_to_none=*/true);
      backward(model(batch(step, job), step == 2 || (step == 0 && job.is_main())));
      expect_gradients(model, steps[static_cast<std::size_t>(step)], "step " + std::to_string(step));
    }
  }
}

RANKS_TEST(DdpGolden, StaticGraph, 2) {
  DistributedDataParallel model(filled<Repeated>(), job, {.static_graph = true});
  const Json steps = golden("static_graph", job);
  for (int step = 0; step < 3; ++step) {
    model.module().zero_grad(/*set_to_none=*/true);
    backward(model(batch(step, job).requires_grad_()));
    expect_gradients(model, steps[static_cast<std::size_t>(step)], "step " + std::to_string(step));
  }
}

RANKS_TEST(DdpGolden, GradientAsBucketView, 2) {
  for (const bool view : {true, false}) {
    DistributedDataParallel model(filled<Plain>(), job, {.gradient_as_bucket_view = view});
    const Json steps = golden(view ? "bucket_views" : "own_gradients", job);
    for (int step = 0; step < 2; ++step) {
      backward(model(batch(step, job)));
      expect_gradients(model, steps[static_cast<std::size_t>(step)], "step " + std::to_string(step));
    }
  }
}

RANKS_TEST(DdpGolden, NoSync, 2) {
  DistributedDataParallel model(filled<Plain>(), job);
  const Json results = golden("no_sync", job);
  {
    const auto local = model.no_sync();
    for (int step = 0; step < 2; ++step) backward(model(batch(step, job)));
  }
  expect_gradients(model, results[0], "accumulated");
  backward(model(batch(2, job)));
  expect_gradients(model, results[1], "synced");
  model.module().zero_grad(true);
  at::Tensor output;
  {
    const auto local = model.no_sync();
    output = model(batch(0, job));
  }
  backward(output);
  expect_gradients(model, results[2], "forward inside");
  model.module().zero_grad(true);
  output = model(batch(0, job));
  {
    const auto local = model.no_sync();
    backward(output);
  }
  expect_gradients(model, results[3], "backward inside");
}

RANKS_TEST(DdpGolden, BroadcastBuffers, 2) {
  DistributedDataParallel model(std::make_shared<Normed>(), job);
  const Json steps = golden("buffers", job);
  for (int step = 0; step < 3; ++step) {
    backward(model(batch(step, job)));
    const Json& expected = steps[static_cast<std::size_t>(step)];
    expect_near(model.module().norm->running_mean, expected.at("mean"), "mean");
    expect_near(model.module().norm->running_var, expected.at("var"), "variance");
  }
}

RANKS_TEST(DdpGolden, Float16Hook, 2) {
  DistributedDataParallel model(filled<Plain>(), job, {.hook = hooks::fp16_compress()});
  const Json steps = golden("fp16", job);
  for (int step = 0; step < 2; ++step) {
    model.module().zero_grad(/*set_to_none=*/true);
    backward(model(batch(step, job)));
    expect_gradients(model, steps[static_cast<std::size_t>(step)], "step " + std::to_string(step), 2e-3);
  }
}

struct Wide : torch::nn::Module {
  Wide() {
    register_module("fc", fc);
    register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& x) { return head(fc(x).tanh()); }
  torch::nn::Linear fc{12, 16};
  torch::nn::Linear head{torch::nn::LinearOptions(16, 10).bias(false)};
};

RANKS_TEST(DdpGolden, PowerSgdHook, 2) {
  for (const int rank : {1, 4}) {
    auto state = std::make_shared<PowerSgd>(PowerSgdOptions{.rank = rank, .start_iter = 2, .min_compression_rate = 1});
    DistributedDataParallel model(filled<Wide>(), job, {.hook = hooks::power_sgd(state)});
    const Json steps = golden("power_sgd_" + std::to_string(rank), job);
    for (int step = 0; step < 5; ++step) {
      if (step == 2) {  // the script replaced PyTorch's random initial Q
        EXPECT_EQ(state->iterations(), 2);
        state->load_state_dict({{"iterations", std::int64_t{2}},
                                {"q.head.weight", wave(7, {16, rank})},
                                {"q.fc.weight", wave(8, {12, rank})}});
      }
      model.module().zero_grad(/*set_to_none=*/true);
      backward(model(wave(100 * step + job.rank() + 1, {9, 12})));
      expect_gradients(model, steps[static_cast<std::size_t>(step)],
                       "rank " + std::to_string(rank) + ", step " + std::to_string(step), 1e-3);
    }
  }
}

struct Words : torch::nn::Module {
  Words() {
    register_module("words", words);
    register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& indices) { return head(words(indices)); }
  torch::nn::Embedding words{torch::nn::EmbeddingOptions(11, 3).sparse(true)};
  torch::nn::Linear head{3, 2};
};

RANKS_TEST(DdpGolden, SparseGradients, 2) {
  DistributedDataParallel model(filled<Words>(), job);
  const Json steps = golden("sparse", job);
  for (int step = 0; step < 2; ++step) {
    model.module().zero_grad(/*set_to_none=*/true);
    const std::vector<std::int64_t> own =
        job.is_main() ? std::vector<std::int64_t>{1, 4, 4, 9} : std::vector<std::int64_t>{4, 0};
    backward(model(at::tensor(own) + step));
    at::Tensor& gradient = model.module().words->weight.mutable_grad();
    EXPECT_TRUE(gradient.is_sparse());
    gradient = gradient.to_dense();
    expect_gradients(model, steps[static_cast<std::size_t>(step)], "step " + std::to_string(step));
  }
}

RANKS_TEST(DdpGolden, JoinWithUnevenInputs, 2) {
  for (const bool by_initial : {true, false}) {
    DistributedDataParallel model(filled<Plain>(), job);
    Join join({&model}, {.divide_by_initial_world_size = by_initial});
    join.run([&] {
      for (int step = 0; step < (job.is_main() ? 3 : 5); ++step) {
        model.module().zero_grad(/*set_to_none=*/true);
        backward(model(batch(step, job)));
        const at::NoGradGuard no_grad;
        for (at::Tensor& value : model.parameters()) value.sub_(value.grad(), 0.5);
      }
    });
    const Json expected = golden(by_initial ? "join" : "join_divided_by_active", job);
    for (const auto& [name, value] : named_parameters_of(model)) expect_near(value.detach(), expected.at(name), name);
  }
}

}  // namespace ddp_options_golden_test
}  // namespace lockstep
