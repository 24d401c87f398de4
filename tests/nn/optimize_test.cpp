// SPDX-License-Identifier: Apache-2.0
// Whole networks: replaced layers, unused operators, TorchScript.
#include <ATen/core/ivalue.h>  // before any other torch header

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/pooling.h>

#include <sstream>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/nn/activation.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/conv.h"
#include "lockstep/nn/layer_norm.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/linear_relu.h"
#include "lockstep/nn/norm_act.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/nn/plain_operators.h"
#include "lockstep/nn/torchscript.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/random.h"
#include "nn/layer_testing.h"
#include "nn/replace.h"
#include "support/comma_locale.h"

namespace lockstep::nn {
namespace optimize_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

MATCHER_P2(IsChain, name, what, "") { return arg.name == name && arg.what == what; }

torch::nn::Conv2d conv(std::int64_t in, std::int64_t out) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1));
}

/// A Sequential within another needs a forward() without templates.
struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    inner = register_module(
        "inner", torch::nn::Sequential(conv(8, 16), torch::nn::BatchNorm2d(16), torch::nn::ReLU(), conv(16, 16)));
  }
  at::Tensor forward(const at::Tensor& x) { return inner->forward(x); }

  torch::nn::Sequential inner{nullptr};
};
TORCH_MODULE(Block);

/// A network of convolutions with every chain that can be fused; one of the chains is in a nested module.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    seed_all(4);
    layers = register_module(
        "layers", torch::nn::Sequential(conv(3, 8), BatchNorm2d(8), torch::nn::ReLU(), torch::nn::MaxPool2d(2), Block(),
                                        BatchNorm2d(16), torch::nn::ReLU()));
    to(at::kFloat);
  }
  at::Tensor forward(const at::Tensor& x) { return layers->forward(x); }

  torch::nn::Sequential layers{nullptr};
};
TORCH_MODULE(Net);

at::Tensor images() {
  seed_all(8);
  return at::randn({4, 3, 8, 8}).to(at::TensorOptions(), false, false, at::MemoryFormat::ChannelsLast);
}

TEST(Optimize, FusesTheChainsOfEverySequentialAndNamesThem) {
  Net net;
  const Optimized done = optimize(*net);
  EXPECT_THAT(done.fused,
              ElementsAre(IsChain("layers.0", "Conv2d"), IsChain("layers.1", "BatchNorm2d + ReLU + MaxPool2d"),
                          IsChain("layers.5", "BatchNorm2d + ReLU"), IsChain("layers.4.inner.0", "Conv2d"),
                          IsChain("layers.4.inner.1", "BatchNorm2d + ReLU"), IsChain("layers.4.inner.3", "Conv2d")));
  EXPECT_THAT(done.left, IsEmpty());
}

TEST(Optimize, KeepsNamesParametersAndWhatTheNetworkComputes) {
  Net plain;
  Net net;
  const NamedTensors before = named_parameters_of(net);
  const auto buffers_before = net->named_buffers().keys();
  (void)optimize(*net);
  const NamedTensors after = named_parameters_of(net);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].first, after[i].first);
    EXPECT_TRUE(before[i].second.is_same(after[i].second)) << before[i].first;
  }
  EXPECT_EQ(buffers_before, net->named_buffers().keys());
  const at::Tensor expected = plain->forward(images());
  const at::Tensor found = net->forward(images());
  EXPECT_TRUE(at::allclose(found, expected, 1e-4, 1e-5));
  expected.sum().backward();
  found.sum().backward();
  EXPECT_TRUE(at::allclose(net->layers[0]->as<Conv2d>()->weight.grad(),
                           plain->layers[0]->as<torch::nn::Conv2d>()->weight.grad(), 1e-3, 1e-4));
  for (const auto& buffer : plain->named_buffers()) {
    EXPECT_TRUE(at::allclose(net->named_buffers()[buffer.key()], buffer.value(), 1e-5, 1e-6)) << buffer.key();
  }
}

TEST(Optimize, TakesDropoutBetweenNormAndReLUAlong) {
  torch::nn::Sequential net(BatchNorm2d(8), torch::nn::Dropout(0.25), torch::nn::ReLU(), torch::nn::MaxPool2d(2));
  EXPECT_THAT(optimize(*net).fused, ElementsAre(IsChain("0", "BatchNorm2d + Dropout + ReLU + MaxPool2d")));
  const auto* fused = net[0]->as<BatchNormReLU2d>();
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(fused->then().dropout, 0.25);
  EXPECT_TRUE(fused->then().pool);
}

TEST(Optimize, ReplacesConvolutionsOfOneGroup) {
  torch::nn::Sequential net(conv(1, 8), torch::nn::Tanh(),
                            torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 8, 3).groups(4)), conv(8, 6));
  const at::Tensor weight = net[0]->as<torch::nn::Conv2d>()->weight;
  EXPECT_THAT(optimize(*net).fused, ElementsAre(IsChain("0", "Conv2d"), IsChain("3", "Conv2d")));
  EXPECT_TRUE(net->named_parameters()["0.weight"].is_same(weight));
}

TEST(Optimize, LeavesAPoolingThatIsNotTwoByTwoToLibtorch) {
  torch::nn::Sequential net(BatchNorm2d(8), torch::nn::ReLU(),
                            torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2)));
  EXPECT_THAT(optimize(*net).fused, ElementsAre(IsChain("0", "BatchNorm2d + ReLU")));
  EXPECT_EQ(net->forward(at::randn({2, 8, 9, 9})).size(2), 4);
}

TEST(Optimize, SaysWhatItLeftAndWhy) {
  torch::nn::Sequential net(BatchNorm2d(6), torch::nn::ReLU(), BatchNorm2d(8));
  const Optimized done = optimize(*net);
  EXPECT_THAT(done.fused, ElementsAre(IsChain("1", "ReLU")));
  EXPECT_THAT(done.left, ElementsAre(IsChain("0", "BatchNorm2d + ReLU: 6 channels are not a multiple of 8"),
                                     IsChain("2", "BatchNorm2d: no ReLU follows")));
}

TEST(Optimize, TwiceIsOnce) {
  Net net;
  (void)optimize(*net);
  EXPECT_THAT(optimize(*net).fused, IsEmpty());
}

}  // namespace optimize_test

namespace replace_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

MATCHER_P2(IsChain, name, what, "") { return arg.name == name && arg.what == what; }

torch::nn::Linear linear(std::int64_t in, std::int64_t out) { return torch::nn::Linear(in, out); }

/// A head like the captcha recogniser's, after unfused layers.
torch::nn::Sequential head(double dropout) {
  seed_all(5);
  return torch::nn::Sequential(torch::nn::LayerNorm(torch::nn::LayerNormOptions({64})), torch::nn::Dropout(dropout),
                               linear(64, 256), torch::nn::Dropout(dropout), torch::nn::ReLU(), linear(256, 128),
                               torch::nn::ReLU(), linear(128, 36));
}

TEST(Replace, TakesLinearReLULayerNormAndDropoutOfASequential) {
  torch::nn::Sequential net = head(0.5);
  const Optimized done = optimize(*net);
  EXPECT_THAT(done.fused,
              ElementsAre(IsChain("0", "LayerNorm"), IsChain("1", "Dropout"), IsChain("2", "Linear + Dropout + ReLU"),
                          IsChain("5", "Linear + ReLU"), IsChain("7", "Linear")));
  EXPECT_THAT(done.left, IsEmpty());
  EXPECT_NE(net[0]->as<LayerNorm>(), nullptr);
  EXPECT_EQ(net[1]->as<Dropout>()->p(), 0.5);
  EXPECT_EQ(net[2]->as<LinearReLU>()->then().dropout, 0.5);
  EXPECT_EQ(net[5]->as<LinearReLU>()->then().dropout, 0);
}

TEST(Replace, KeepsNamesParametersAndWhatTheNetworkComputes) {
  torch::nn::Sequential plain = head(0);
  torch::nn::Sequential net = head(0);
  const auto before = net->named_parameters();
  (void)optimize(*net);
  const auto after = net->named_parameters();
  EXPECT_EQ(before.keys(), after.keys());
  for (const auto& parameter : before)
    EXPECT_TRUE(parameter.value().is_same(after[parameter.key()])) << parameter.key();
  const at::Tensor x = at::randn({64, 64});
  const at::Tensor found = net->forward(x);
  const at::Tensor expected = plain->forward(x);
  EXPECT_LT(difference(found, expected), 1e-6);
  found.square().sum().backward();
  expected.square().sum().backward();
  for (const auto& parameter : plain->named_parameters()) {
    EXPECT_LT(difference(after[parameter.key()].grad(), parameter.value().grad()), 1e-5) << parameter.key();
  }
}

TEST(Replace, TakesDropoutAfterReLUAlongForItIsTheSame) {
  torch::nn::Sequential net(linear(8, 8), torch::nn::ReLU(), torch::nn::Dropout(0.25), torch::nn::Dropout(0.5));
  EXPECT_THAT(optimize(*net).fused, ElementsAre(IsChain("0", "Linear + ReLU + Dropout"), IsChain("3", "Dropout")));
  EXPECT_EQ(net[0]->as<LinearReLU>()->then().dropout, 0.25);
}

TEST(Replace, TakesALinearAndAReLUAloneUnlessThatIsInPlace) {
  torch::nn::Sequential net(linear(8, 8), torch::nn::Tanh(), torch::nn::ReLU(), torch::nn::Tanh(),
                            torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)));
  EXPECT_THAT(optimize(*net).fused, ElementsAre(IsChain("0", "Linear"), IsChain("2", "ReLU")));
  EXPECT_NE(net[0]->as<Linear>(), nullptr);
  EXPECT_NE(net[2]->as<ReLU>(), nullptr);
  EXPECT_NE(net[4]->as<torch::nn::ReLU>(), nullptr);
}

TEST(Replace, DoesNotTakeTheReLUOfABatchNormTwice) {
  torch::nn::Sequential net(BatchNorm2d(8), torch::nn::Dropout(0.5), torch::nn::ReLU(), torch::nn::Dropout(0.5));
  EXPECT_THAT(optimize(*net).fused, ElementsAre(IsChain("0", "BatchNorm2d + Dropout + ReLU"), IsChain("3", "Dropout")));
}

/// A user's own class: its forward differs from Linear's.
struct DoubledImpl : torch::nn::LinearImpl {
  using torch::nn::LinearImpl::LinearImpl;
  at::Tensor forward(const at::Tensor& x) { return 2 * torch::nn::LinearImpl::forward(x); }
};
TORCH_MODULE(Doubled);

TEST(Replace, LeavesAClassThatIsDerivedFromALayer) {
  torch::nn::Sequential net(Doubled(8, 8), torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)));
  const at::Tensor x = at::randn({4, 8});
  const at::Tensor before = net->forward(x);
  EXPECT_THAT(optimize(*net).fused, IsEmpty());
  EXPECT_TRUE(at::equal(net->forward(x), before));
}

TEST(Replace, KeepsTheModeAndFollowsTheNetworksAfterwards) {
  torch::nn::Sequential net = head(0.5);
  net->eval();
  (void)optimize(*net);
  for (const auto& layer : net->children()) EXPECT_FALSE(layer->is_training());
  const at::Tensor x = at::randn({64, 64});
  EXPECT_TRUE(at::equal(net->forward(x), net->forward(x)));
  net->train();
  EXPECT_FALSE(at::equal(net->forward(x), net->forward(x)));
}

struct OutsideImpl : torch::nn::Module {
  OutsideImpl() {
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})));
    dropout = register_module("dropout", torch::nn::Dropout(0.5));
  }
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
};

TEST(Replace, SaysWhatStandsOutsideOfASequential) {
  OutsideImpl net;
  EXPECT_THAT(optimize(net).left, ElementsAre(IsChain("norm", "LayerNorm: it is not inside a torch::nn::Sequential"),
                                              IsChain("dropout", "Dropout: it is not inside a torch::nn::Sequential")));
}

/// Convolution, norm, a table that is built once, a layer with its own kernel, and reshapes that depend on the batch
/// size.
class Net final : public torch::nn::Module {
 public:
  Net() {
    features_ = register_module(
        "features", torch::nn::Sequential(torch::nn::Conv2d(3, 8, 3), torch::nn::BatchNorm2d(8), torch::nn::ReLU()));
    norm_ = register_module("norm", LayerNorm(torch::nn::LayerNormOptions({8})));
    head_ = register_module("head", torch::nn::Linear(8, 5));
    unused_ = register_module("unused", torch::nn::Linear(8, 5));
  }

  at::Tensor forward(const at::Tensor& images) {
    if (!table_.defined()) table_ = at::rand({64, 8});
    const at::Tensor maps = features_->forward(images);
    const std::int64_t batch = maps.size(0);
    const at::Tensor rows = norm_(maps.flatten(2).transpose(1, 2).contiguous() + table_);
    return head_->forward(rows.reshape({batch * 2, 32, 8})).view({batch, 64, 5}) + at::zeros({batch, 64, 1});
  }

 private:
  torch::nn::Sequential features_{nullptr};
  LayerNorm norm_{nullptr};
  torch::nn::Linear head_{nullptr};
  torch::nn::Linear unused_{nullptr};
  at::Tensor table_;
};

NetworkFunction function_of(Net& net) {
  return {.inputs = {"images"},
          .outputs = {"scores", "labels"},
          .example = [](std::int64_t batch) -> std::vector<at::Tensor> {
            return {at::randn({batch, 3, 10, 10})};
          },
          .run = [&net](const std::vector<at::Tensor>& arguments) -> std::vector<at::Tensor> {
            const at::Tensor scores = net.forward(arguments[0]);
            return {scores, scores.argmax(2)};
          },
          .names = {"cup", "a \"mug\""}};
}

struct TorchScript : ::testing::Test {
  TorchScript() {
    seed_all(4);
    net = std::make_shared<Net>();
    net->eval();
  }
  std::string fault(const NetworkFunction& function) {
    try {
      (void)to_torchscript(*net, function);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  }
  std::shared_ptr<Net> net;
};

TEST_F(TorchScript, ComputesTheSameForAnyBatchAndHoldsItsTensorsByName) {
  const at::NoGradGuard no_grad;
  const NetworkFunction function = function_of(*net);
  std::istringstream archive(to_torchscript(*net, function, {{"config.yml", "seed: 1\n"}}));
  torch::jit::ExtraFilesMap files = {{"network.json", ""}, {"config.yml", ""}};
  torch::jit::Module loaded = torch::jit::load(archive, c10::nullopt, files);
  EXPECT_EQ(files["config.yml"], "seed: 1\n");
  EXPECT_EQ(files["network.json"],
            "{\"inputs\": [{\"name\": \"images\", \"shape\": [null, 3, 10, 10], \"dtype\": \"float32\"}], "
            "\"outputs\": [{\"name\": \"scores\", \"shape\": [null, 64, 5], \"dtype\": \"float32\"}, "
            "{\"name\": \"labels\", \"shape\": [null, 64], \"dtype\": \"int64\"}], "
            "\"names\": [\"cup\", \"a \\\"mug\\\"\"]}\n");
  std::vector<std::string> parameters;
  for (const auto& item : loaded.named_parameters()) parameters.push_back(item.name);
  EXPECT_THAT(parameters,
              UnorderedElementsAre("features.0.weight", "features.0.bias", "features.1.weight", "features.1.bias",
                                   "norm.weight", "norm.bias", "head.weight", "head.bias"));
  std::vector<std::string> buffers;
  for (const auto& item : loaded.named_buffers()) buffers.push_back(item.name);
  EXPECT_THAT(buffers, UnorderedElementsAre("features.1.running_mean", "features.1.running_var", "constant_0"));
  loaded.eval();  // fails if there is no attribute "training"
  for (const std::int64_t batch : {1, 2, 3, 7}) {
    const auto arguments = function.example(batch);
    const auto wanted = function.run(arguments);
    const auto found = loaded.forward({arguments[0]}).toTuple()->elements();
    EXPECT_TRUE(found.at(0).toTensor().allclose(wanted[0], 1e-5, 1e-6)) << batch;
    EXPECT_TRUE(found.at(1).toTensor().equal(wanted[1])) << batch;
  }
}

TEST_F(TorchScript, MovesToAnotherTypeAsAWhole) {
  const at::NoGradGuard no_grad;
  const NetworkFunction function = function_of(*net);
  std::istringstream archive(to_torchscript(*net, function));
  torch::jit::Module loaded = torch::jit::load(archive);
  loaded.to(at::kDouble);
  const auto arguments = function.example(2);
  const at::Tensor found = loaded.forward({arguments[0].to(at::kDouble)}).toTuple()->elements().at(0).toTensor();
  EXPECT_EQ(found.scalar_type(), at::kDouble);
  EXPECT_TRUE(found.to(at::kFloat).allclose(function.run(arguments)[0], 1e-4, 1e-5));
}

TEST_F(TorchScript, LeavesTheNetworkAsItWas) {
  (void)to_torchscript(*net, function_of(*net));
  for (const auto& item : net->named_parameters()) EXPECT_TRUE(item.value().requires_grad()) << item.key();
}

TEST_F(TorchScript, RefusesWhatIsNoFunctionOfTensors) {
  NetworkFunction function = function_of(*net);
  function.run = [this](const std::vector<at::Tensor>& arguments) -> std::vector<at::Tensor> {
    const at::Tensor scores = net->forward(arguments[0]);
    return {scores * arguments[0].max().item<double>(), scores.argmax(2)};
  };
  EXPECT_THAT(fault(function), HasSubstr("something else for other arguments: a constant that is not a whole number"));
  function.run = [this](const std::vector<at::Tensor>& arguments) -> std::vector<at::Tensor> {
    const at::Tensor scores = net->forward(arguments[0]);
    return {arguments[0].size(0) > 4 ? scores * 2 : scores * 3, scores.argmax(2)};
  };
  EXPECT_THAT(fault(function),
              HasSubstr("output \"scores\" of the traced network differs from that of the network itself"));
  function.run = [this](const std::vector<at::Tensor>& arguments) -> std::vector<at::Tensor> {
    const at::Tensor scores = net->forward(arguments[0]);
    return {arguments[0].size(0) > 2 ? scores * 2 : scores + 2, scores.argmax(2)};
  };
  EXPECT_THAT(fault(function), HasSubstr("something else for other arguments: fewer operators"));
  net->train();
  EXPECT_THAT(fault(function_of(*net)), HasSubstr("training mode"));
}

// libtorch writes the numbers in the code through a C++ stream.
TEST_F(TorchScript, IsTheSameArchiveInALocaleWithADecimalComma) {
  const std::string plain = to_torchscript(*net, function_of(*net));
  const test::CommaLocale comma;
  const std::locale before;
  EXPECT_TRUE(to_torchscript(*net, function_of(*net)) == plain);
  EXPECT_EQ(std::locale(), before);
}

}  // namespace replace_test

namespace plain_operators_test {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// The result and the gradient of the input.
std::vector<at::Tensor> step(const std::function<at::Tensor(const at::Tensor&)>& layer, const at::Tensor& input) {
  const at::Tensor x = input.detach().clone(input.suggest_memory_format()).requires_grad_();
  const at::Tensor out = layer(x);
  // Not all the same: a norm would remove that.
  out.backward(at::arange(out.numel(), out.options()).remainder(7).view(out.sizes()));
  return {out, x.grad()};
}

/// Runs the layer's kernel, then libtorch's operators; each must actually run, and both must agree.
void expect_both(const char* kernel, const std::function<at::Tensor(const at::Tensor&)>& layer,
                 const at::Tensor& input) {
  const std::vector<at::Tensor> ours = step(layer, input);
  EXPECT_THAT(ours[0].grad_fn()->name(), HasSubstr(kernel));
  std::vector<at::Tensor> plain;
  {
    const PlainOperators guard;
    const PlainOperators inner;
    plain = step(layer, input);
  }
  EXPECT_THAT(plain[0].grad_fn()->name(), Not(AnyOf(HasSubstr("lockstep"), HasSubstr(kernel))));
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_LT(difference(plain[i], ours[i]), 1e-5) << kernel << i;
  EXPECT_THAT(step(layer, input)[0].grad_fn()->name(), HasSubstr(kernel)) << "the guard is gone";
}

TEST(PlainOperators, KernelsOfLayersRestAndTheirValuesStay) {
  seed_all(1);
  LayerNorm norm{torch::nn::LayerNormOptions({64})};
  expect_both(
      "LayerNormFunction", [&](const at::Tensor& x) { return norm(x); }, at::randn({64, 64}));
  LinearReLU linear{torch::nn::LinearOptions(32, 48)};
  expect_both(
      "LinearReLUFunction", [&](const at::Tensor& x) { return linear(x); }, at::randn({16, 32}));
  ReLU relu;
  expect_both(
      "ReLUFunction", [&](const at::Tensor& x) { return relu(x); }, at::randn({1 << 18}));
  BatchNormReLU2d both{torch::nn::BatchNormOptions(16)};
  expect_both(
      "FusedNormAct", [&](const at::Tensor& x) { return both(x); },
      at::randn({4, 16, 8, 8}).contiguous(at::MemoryFormat::ChannelsLast));
}

TEST(PlainOperators, ConvolutionsAreThoseOfLibtorch) {
  seed_all(2);
  Conv2d conv{torch::nn::Conv2dOptions(64, 64, 3).padding(1)};
  const at::Tensor x = at::randn({8, 64, 40, 40}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor ours = conv(x);
  const PlainOperators guard;
  const at::Tensor plain = conv(x);
  EXPECT_THAT(plain.grad_fn()->name(), Not(HasSubstr("Winograd")));
  EXPECT_LT(difference(plain, ours), 1e-5);
}

TEST(PlainOperators, HoldForTheirThreadOnly) {
  EXPECT_FALSE(uses_plain_operators());
  const PlainOperators guard;
  EXPECT_TRUE(uses_plain_operators());
  bool elsewhere = true;
  std::thread([&] { elsewhere = uses_plain_operators(); }).join();
  EXPECT_FALSE(elsewhere);
}

}  // namespace plain_operators_test
}  // namespace lockstep::nn
