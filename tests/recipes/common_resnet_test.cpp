// SPDX-License-Identifier: Apache-2.0
// ResNet without the classifier: torchvision's names and counts, strides and dilations, and fused layers.
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/resnet.h"
#include "lockstep/base/error.h"
#include "lockstep/train/prepare.h"

namespace lockstep::common {
namespace common_resnet_test {

using Sizes = std::vector<std::int64_t>;

std::map<std::string, Sizes> shapes_of(const torch::nn::Module& net) {
  std::map<std::string, Sizes> shapes;
  for (const auto& item : net.named_parameters()) shapes[item.key()] = item.value().sizes().vec();
  for (const auto& item : net.named_buffers()) shapes[item.key()] = item.value().sizes().vec();
  return shapes;
}

TEST(ResNet, HasTorchvisionsParameterCountsWithoutTheClassifier) {
  const std::vector<std::pair<std::int64_t, std::int64_t>> published = {
      {18, 11'689'512 - 513'000}, {34, 21'797'672 - 513'000}, {50, 25'557'032 - 2'049'000}};
  for (const auto& [layers, parameters] : published) {
    EXPECT_EQ(parameter_count(ResNet({.layers = layers})), parameters) << layers;
  }
}

TEST(ResNet, HasTorchvisionsNames) {
  const auto basic = shapes_of(ResNet({.layers = 18}));
  EXPECT_EQ(basic.size(), 120U);  // torchvision's state dict has 122 entries, including fc
  EXPECT_EQ(basic.at("conv1.weight"), (Sizes{64, 3, 7, 7}));
  EXPECT_EQ(basic.at("bn1.num_batches_tracked"), Sizes{});
  EXPECT_EQ(basic.at("layer2.0.downsample.0.weight"), (Sizes{128, 64, 1, 1}));
  EXPECT_EQ(basic.at("layer4.1.conv2.weight"), (Sizes{512, 512, 3, 3}));
  EXPECT_EQ(basic.at("layer4.1.bn2.running_var"), Sizes{512});
  const auto deep = shapes_of(ResNet({.layers = 50}));
  EXPECT_EQ(deep.size(), 318U);  // 320 with fc
  EXPECT_EQ(deep.at("layer1.0.downsample.1.running_mean"), Sizes{256});
  EXPECT_EQ(deep.at("layer3.5.conv3.weight"), (Sizes{1024, 256, 1, 1}));
}

TEST(ResNet, ItsStridesAreTheOnesAskedFor) {
  const at::NoGradGuard guard;
  const auto sizes = [](std::int64_t stride, bool ceil) {
    ResNet net({.layers = 18, .output_stride = stride, .ceil_pool = ceil});
    net.eval();
    const ResNetFeatures found = net.features(at::rand({1, 3, 65, 49}));
    EXPECT_EQ(found.high.size(1), net.high_channels());
    EXPECT_EQ(found.low.size(1), net.low_channels());
    return Sizes{found.low.size(2), found.low.size(3), found.high.size(2), found.high.size(3)};
  };
  EXPECT_EQ(sizes(32, false), (Sizes{17, 13, 3, 2}));
  EXPECT_EQ(sizes(16, false), (Sizes{17, 13, 5, 4}));
  EXPECT_EQ(sizes(8, false), (Sizes{17, 13, 9, 7}));
  EXPECT_EQ(sizes(8, true), (Sizes{17, 13, 9, 7}));
}

TEST(ResNet, ThePoolingAfterTheStemRoundsAsTheOptionSays) {
  const at::NoGradGuard guard;
  for (const bool ceil : {false, true}) {
    ResNet net({.layers = 18, .ceil_pool = ceil});
    net.eval();
    EXPECT_EQ(net.features(at::rand({1, 3, 63, 63})).low.size(2), ceil ? 17 : 16);
  }
}

TEST(ResNet, StridesThatAreNotTakenBecomeDilationAndTheGridMultipliesIt) {
  const auto dilations = [](const ResNetOptions& options) {
    Sizes found;
    const auto net = std::make_shared<ResNet>(options);
    for (const auto& item : net->named_modules()) {
      const auto* conv = dynamic_cast<const nn::Conv2dImpl*>(item.value().get());
      const bool second = item.key().ends_with("conv2") && (item.key()[5] == '3' || item.key()[5] == '4');
      if (conv != nullptr && second) found.push_back((*conv->options.dilation())[0]);
    }
    return found;
  };
  EXPECT_EQ(dilations({.layers = 18, .output_stride = 8, .multi_grid = true}), (Sizes{2, 2, 4, 8}));
  EXPECT_EQ(dilations({.layers = 18, .output_stride = 8}), (Sizes{2, 2, 4, 4}));
  EXPECT_EQ(dilations({.layers = 50, .output_stride = 8, .multi_grid = true}), (Sizes{2, 2, 2, 2, 2, 2, 4, 8, 16}));
  EXPECT_EQ(dilations({.layers = 50, .output_stride = 16, .multi_grid = true}), (Sizes{1, 1, 1, 1, 1, 1, 2, 4, 8}));
  EXPECT_EQ(dilations({.layers = 18}), (Sizes{1, 1, 1, 1}));
}

TEST(ResNet, TheStrideOfABottleneckStandsWhereTheOptionSays) {
  const auto strides = [](bool in_1x1) {
    const auto net = std::make_shared<ResNet>(ResNetOptions{.layers = 50, .stride_in_1x1 = in_1x1});
    Sizes found;
    for (const char* name : {"layer2.0.conv1", "layer2.0.conv2", "layer2.1.conv2"}) {
      for (const auto& item : net->named_modules()) {
        if (item.key() == name) found.push_back((*item.value()->as<nn::Conv2d>()->options.stride())[0]);
      }
    }
    return found;
  };
  EXPECT_EQ(strides(true), (Sizes{2, 1, 1}));
  EXPECT_EQ(strides(false), (Sizes{1, 2, 1}));
}

// Rounding occasionally flips a ReLU, which changes the gradient by a percent, so two of four inputs must agree.
TEST(ResNet, TrainsInChannelsLastAsInTheOtherLayout) {
  const auto gradient = [](int seed, bool channels_last) {
    torch::manual_seed(seed);
    ResNet net({.layers = 18, .output_stride = 8, .multi_grid = true});
    at::Tensor images = at::randn({2, 3, 33, 33});
    if (channels_last) {
      use_channels_last(net);
      images = to_channels_last(images);
    }
    const ResNetFeatures found = net.features(images);
    (found.high.square().mean() + found.low.mean()).backward();
    return net.named_parameters()["conv1.weight"].grad().contiguous();
  };
  int alike = 0;
  for (const int seed : {1, 2, 3, 4}) {
    const at::Tensor plain = gradient(seed, false);
    const double share = (gradient(seed, true) - plain).norm().item<double>() / plain.norm().item<double>();
    EXPECT_LT(share, 0.1) << "seed " << seed;
    alike += share < 1e-3 ? 1 : 0;
  }
  EXPECT_GE(alike, 2);
}

TEST(ResNet, RefusesDepthsAndStridesThatThereAreNoneOf) {
  EXPECT_THROW(ResNet({.layers = 42}), UsageError);
  EXPECT_THROW(ResNet({.layers = 18, .output_stride = 4}), UsageError);
}

}  // namespace common_resnet_test
}  // namespace lockstep::common
