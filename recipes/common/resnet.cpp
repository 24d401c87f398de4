// SPDX-License-Identifier: Apache-2.0
#include "common/resnet.h"

#include <ATen/ops/max_pool2d.h>
#include <fmt/format.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/sequential.h>

#include <array>
#include <cmath>

#include "lockstep/base/error.h"

namespace lockstep::common {
namespace {

constexpr std::int64_t kStemChannels = 64;

/// The number of blocks in each stage, and their kind, for one network depth.
struct Depth {
  std::array<std::int64_t, 4> blocks;
  bool bottleneck;
};

Depth depth_of(std::int64_t layers) {
  switch (layers) {
    case 18:
      return {{2, 2, 2, 2}, false};
    case 34:
      return {{3, 4, 6, 3}, false};
    case 50:
      return {{3, 4, 6, 3}, true};
    case 101:
      return {{3, 4, 23, 3}, true};
    case 152:
      return {{3, 8, 36, 3}, true};
    default:
      throw UsageError(fmt::format("there is no ResNet with {} layers", layers), "take 18, 34, 50, 101 or 152");
  }
}

/// The shape of one block. `stride` and `dilation` are for its 3x3 convolution (in a basic block, `stride` for the
/// first one, `dilation` for the second).
struct BlockShape {
  std::int64_t in = 0;
  std::int64_t middle = 0;
  std::int64_t out = 0;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  bool stride_in_1x1 = false;
};

struct Kernel {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
};

/// Creates a convolution without bias that preserves the size, apart from its stride.
nn::Conv2d convolution(std::int64_t in, std::int64_t out, Kernel kernel) {
  nn::Conv2d conv(torch::nn::Conv2dOptions(in, out, kernel.size)
                      .stride(kernel.stride)
                      .padding(kernel.size / 2 * kernel.dilation)
                      .dilation(kernel.dilation)
                      .bias(false));
  const auto fan_out = static_cast<double>(kernel.size * kernel.size * out);
  torch::nn::init::normal_(conv->weight, 0, std::sqrt(2 / fan_out));
  return conv;
}

nn::BatchNormReLU2d norm_relu(std::int64_t channels) {
  return nn::BatchNormReLU2d(torch::nn::BatchNormOptions(channels));
}

/// Creates the shortcut of a block if the shape changes; null if the shortcut is the input itself.
torch::nn::Sequential way_around(const BlockShape& shape) {
  if (shape.stride == 1 && shape.in == shape.out) return nullptr;
  return torch::nn::Sequential(convolution(shape.in, shape.out, {.stride = shape.stride}), nn::BatchNorm2d(shape.out));
}

/// Adds the shortcut to the block's output, fused with the last batch norm.
at::Tensor joined(nn::BatchNormReLU2d& norm, const at::Tensor& out, torch::nn::Sequential& around,
                  const at::Tensor& x) {
  return norm->forward_with_residual(out, around.is_empty() ? x : around->forward(x));
}

class BasicBlock final : public ResidualBlock {
 public:
  explicit BasicBlock(const BlockShape& shape)
      : conv1_(register_module("conv1", convolution(shape.in, shape.middle, {.size = 3, .stride = shape.stride}))),
        bn1_(register_module("bn1", norm_relu(shape.middle))),
        conv2_(register_module("conv2", convolution(shape.middle, shape.out, {.size = 3, .dilation = shape.dilation}))),
        bn2_(register_module("bn2", norm_relu(shape.out))),
        downsample_(way_around(shape)) {
    if (!downsample_.is_empty()) register_module("downsample", downsample_);
  }

  at::Tensor forward(const at::Tensor& x) override {
    const at::Tensor middle = bn1_->forward(conv1_->forward(x));
    return joined(bn2_, conv2_->forward(middle), downsample_, x);
  }

 private:
  nn::Conv2d conv1_;
  nn::BatchNormReLU2d bn1_;
  nn::Conv2d conv2_;
  nn::BatchNormReLU2d bn2_;
  torch::nn::Sequential downsample_;
};

class Bottleneck final : public ResidualBlock {
 public:
  explicit Bottleneck(const BlockShape& shape)
      : conv1_(register_module(
            "conv1", convolution(shape.in, shape.middle, {.stride = shape.stride_in_1x1 ? shape.stride : 1}))),
        bn1_(register_module("bn1", norm_relu(shape.middle))),
        conv2_(register_module(
            "conv2",
            convolution(shape.middle, shape.middle,
                        {.size = 3, .stride = shape.stride_in_1x1 ? 1 : shape.stride, .dilation = shape.dilation}))),
        bn2_(register_module("bn2", norm_relu(shape.middle))),
        conv3_(register_module("conv3", convolution(shape.middle, shape.out, {}))),
        bn3_(register_module("bn3", norm_relu(shape.out))),
        downsample_(way_around(shape)) {
    if (!downsample_.is_empty()) register_module("downsample", downsample_);
  }

  at::Tensor forward(const at::Tensor& x) override {
    const at::Tensor middle = bn2_->forward(conv2_->forward(bn1_->forward(conv1_->forward(x))));
    return joined(bn3_, conv3_->forward(middle), downsample_, x);
  }

 private:
  nn::Conv2d conv1_;
  nn::BatchNormReLU2d bn1_;
  nn::Conv2d conv2_;
  nn::BatchNormReLU2d bn2_;
  nn::Conv2d conv3_;
  nn::BatchNormReLU2d bn3_;
  torch::nn::Sequential downsample_;
};

/// The stride and dilation of a stage: strides beyond the requested output stride become dilation.
struct StageShape {
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
};

StageShape stage_shape(std::int64_t stage, std::int64_t output_stride) {
  const std::int64_t undilated = std::int64_t{4} << stage;
  if (undilated > output_stride) return {.stride = 1, .dilation = undilated / output_stride};
  return {.stride = stage == 0 ? 1 : 2, .dilation = 1};
}

}  // namespace

ResNet::ResNet(const ResNetOptions& options) : ceil_pool_(options.ceil_pool) {
  const Depth depth = depth_of(options.layers);
  const std::int64_t wanted = options.output_stride;
  if (wanted != 8 && wanted != 16 && wanted != 32) {
    throw UsageError(fmt::format("there is no ResNet with output stride {}", wanted), "take 8, 16 or 32");
  }
  conv1_ = register_module("conv1", convolution(3, kStemChannels, {.size = 7, .stride = 2}));
  bn1_ = register_module("bn1", norm_relu(kStemChannels));
  std::int64_t in = kStemChannels;
  for (std::int64_t s = 0; s < 4; ++s) {
    const auto [stride, dilation] = stage_shape(s, wanted);
    const std::int64_t middle = kStemChannels << s;
    const std::int64_t out = depth.bottleneck ? 4 * middle : middle;
    auto holder = register_module(fmt::format("layer{}", s + 1), std::make_shared<torch::nn::Module>());
    Stage& stage = stages_.emplace_back();
    for (std::int64_t b = 0; b < depth.blocks[static_cast<std::size_t>(s)]; ++b) {
      const BlockShape shape{.in = in,
                             .middle = middle,
                             .out = out,
                             .stride = b == 0 ? stride : 1,
                             .dilation = s == 3 && options.multi_grid ? dilation << b : dilation,
                             .stride_in_1x1 = options.stride_in_1x1};
      if (depth.bottleneck) {
        stage.push_back(std::make_shared<Bottleneck>(shape));
      } else {
        stage.push_back(std::make_shared<BasicBlock>(shape));
      }
      holder->register_module(std::to_string(b), stage.back());
      in = out;
    }
    if (s == 0) low_channels_ = out;
  }
  high_channels_ = in;
}

ResNetFeatures ResNet::features(const at::Tensor& images) {
  at::Tensor x = bn1_->forward(conv1_->forward(images));
  x = at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1}, {1, 1}, ceil_pool_);
  ResNetFeatures found;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    for (const auto& block : stages_[s]) x = block->forward(x);
    if (s == 0) found.low = x;
  }
  found.high = x;
  return found;
}

}  // namespace lockstep::common
