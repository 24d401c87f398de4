// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/torchscript.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/nn/layer_norm.h"
#include "lockstep/tensor/random.h"
#include "support/comma_locale.h"

namespace lockstep::nn {
namespace torchscript_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

/// Convolution, norm, a table that is made once, a layer with a kernel of its own, and reshapes that need the batch.
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
  loaded.eval();  // libtorch wants an attribute for it
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
  EXPECT_THAT(fault(function), HasSubstr("something else for other arguments: a constant that is no whole number"));
  function.run = [this](const std::vector<at::Tensor>& arguments) -> std::vector<at::Tensor> {
    const at::Tensor scores = net->forward(arguments[0]);
    return {arguments[0].size(0) > 4 ? scores * 2 : scores * 3, scores.argmax(2)};
  };
  EXPECT_THAT(fault(function), HasSubstr("another result \"scores\" than the network itself"));
  function.run = [this](const std::vector<at::Tensor>& arguments) -> std::vector<at::Tensor> {
    const at::Tensor scores = net->forward(arguments[0]);
    return {arguments[0].size(0) > 2 ? scores * 2 : scores + 2, scores.argmax(2)};
  };
  EXPECT_THAT(fault(function), HasSubstr("something else for other arguments: fewer operators"));
  net->train();
  EXPECT_THAT(fault(function_of(*net)), HasSubstr("training mode"));
}

// libtorch writes the numbers of the code by a stream.
TEST_F(TorchScript, IsTheSameArchiveInALocaleWithADecimalComma) {
  const std::string plain = to_torchscript(*net, function_of(*net));
  const test::CommaLocale comma;
  const std::locale before;
  EXPECT_TRUE(to_torchscript(*net, function_of(*net)) == plain);
  EXPECT_EQ(std::locale(), before);
}

}  // namespace torchscript_test
}  // namespace lockstep::nn
