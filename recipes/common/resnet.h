// SPDX-License-Identifier: Apache-2.0
// ResNet-18, 34, 50, 101 and 152 without the classifier, under torchvision's names, so that torchvision's weights can
// be loaded. A base class: the names stay flat ("layer1.0.conv1.weight") when a network adds its head.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/conv.h"
#include "lockstep/nn/norm_act.h"

namespace lockstep::common {

struct ResNetOptions {
  std::int64_t layers = 50;         ///< 18, 34, 50, 101 or 152
  std::int64_t output_stride = 32;  ///< 8, 16 or 32: image pixels per pixel of layer4; below 32 through dilation
  bool stride_in_1x1 = false;       ///< if true, a bottleneck's stride is in its first 1x1 (Caffe), else in its 3x3
                                    ///< (torchvision)
  bool multi_grid = false;          ///< the dilations of layer4's blocks are 1, 2 and 4 times the stage's
  bool ceil_pool = false;           ///< if true, the pooling after the stem rounds sizes up; else down (torchvision)
};

/// The outputs of layer1 (stride 4) and layer4.
struct ResNetFeatures {
  at::Tensor low;   ///< [B, low_channels(), H/4, W/4]
  at::Tensor high;  ///< [B, high_channels(), H/output_stride, W/output_stride]
};

/// A block of a stage; its form depends on the network's depth.
class ResidualBlock : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& x) = 0;
};

/// Registers conv1, bn1, layer1 to layer4. Convolutions are initialised from N(0, sqrt(2 / (k k out))), batch norms
/// from 1 and 0.
///
/// The layers are from lockstep::nn: on a CPU they run fused in channels-last format, and sync_batch_norm() can find
/// the norms. Sizes that do not divide evenly are rounded up; with output stride 8, 465 pixels become 59.
/// Throws: UsageError for a depth or stride that does not exist.
/// Source: He et al., Deep Residual Learning, 2016; Chen et al., Rethinking Atrous Convolution, 2017.
class ResNet : public torch::nn::Module {
 public:
  explicit ResNet(const ResNetOptions& options);

  /// Shapes: float [B, 3, H, W].
  [[nodiscard]] ResNetFeatures features(const at::Tensor& images);
  [[nodiscard]] std::int64_t low_channels() const noexcept { return low_channels_; }
  [[nodiscard]] std::int64_t high_channels() const noexcept { return high_channels_; }

 private:
  using Stage = std::vector<std::shared_ptr<ResidualBlock>>;

  bool ceil_pool_;
  nn::Conv2d conv1_{nullptr};
  nn::BatchNormReLU2d bn1_{nullptr};
  std::vector<Stage> stages_;
  std::int64_t low_channels_ = 0;
  std::int64_t high_channels_ = 0;
};

}  // namespace lockstep::common
