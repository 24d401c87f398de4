// SPDX-License-Identifier: Apache-2.0
// The heads, which map the backbone's features to logits: parallel dilated convolutions with one channel per class
// (DeepLabv2 with batch norm), or with 256 channels and a decoder (DeepLabv3+).
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/conv.h"
#include "lockstep/nn/norm_act.h"

namespace lockstep::segmentation {

struct ConvShape {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 1;
  std::int64_t dilation = 1;
};

/// A convolution without bias that preserves the image's size, then batch norm and ReLU.
class ConvNormReLU final : public torch::nn::Module {
 public:
  explicit ConvNormReLU(const ConvShape& shape);
  at::Tensor forward(const at::Tensor& x);
  /// True if the batch norm's statistics come from several replicas.
  [[nodiscard]] bool is_synced() const;

 private:
  nn::Conv2d conv_;
  nn::BatchNormReLU2d bn_;
};

struct ASPPOptions {
  std::int64_t in = 2048;
  std::int64_t width = 256;                       ///< channels of each branch
  std::vector<std::int64_t> rates = {6, 12, 18};  ///< dilations of the 3x3 branches
};

/// Concatenates the branches of atrous spatial pyramid pooling: a 1x1 convolution, a dilated 3x3 one for each rate, and
/// the mean over the image, each with batch norm and ReLU.
class Pyramid final : public torch::nn::Module {
 public:
  explicit Pyramid(const ASPPOptions& options);
  /// Shapes: [B, in, h, w] to [B, out_channels(), h, w].
  /// Throws: UsageError for a batch of one image in training: batch norm over a single mean has no variance.
  at::Tensor forward(const at::Tensor& x);
  [[nodiscard]] std::int64_t out_channels() const noexcept { return out_channels_; }

 private:
  std::vector<std::shared_ptr<ConvNormReLU>> branches_;
  std::shared_ptr<ConvNormReLU> pooled_;
  std::int64_t out_channels_;
};

/// The base of all heads: maps features at two strides to logits.
class Head : public torch::nn::Module {
 public:
  /// Shapes: low [B, ., h', w'], high [B, ., h, w]; logits [B, classes, h, w], or at the size of `low`.
  virtual at::Tensor forward(const at::Tensor& low, const at::Tensor& high) = 0;
};

/// The pyramid with one channel per class, then a 1x1 convolution and batch norm, which yield the logits.
class ClassWidthHead final : public Head {
 public:
  ClassWidthHead(std::int64_t in, std::int64_t classes, const std::vector<std::int64_t>& rates);
  at::Tensor forward(const at::Tensor& low, const at::Tensor& high) override;

 private:
  std::shared_ptr<Pyramid> pyramid_;
  nn::Conv2d conv_{nullptr};
  nn::BatchNorm2d bn_{nullptr};
};

struct DecoderOptions {
  std::int64_t low = 256;    ///< channels of layer1
  std::int64_t high = 2048;  ///< channels of layer4
  std::int64_t classes = 21;
  std::vector<std::int64_t> rates = {6, 12, 18};
  double dropout = 0.5;  ///< dropout after the pyramid's projection
};

/// DeepLabv3+: the pyramid with 256 channels, upsampled to the size of layer1 and concatenated with 48 channels from
/// layer1, then two 3x3 convolutions. Logits are at stride 4. Source: Chen et al., Encoder-Decoder with Atrous
/// Separable Convolution, 2018.
class DecoderHead final : public Head {
 public:
  explicit DecoderHead(const DecoderOptions& options);
  at::Tensor forward(const at::Tensor& low, const at::Tensor& high) override;

 private:
  std::shared_ptr<Pyramid> pyramid_;
  std::shared_ptr<ConvNormReLU> project_;
  double dropout_;
  std::shared_ptr<ConvNormReLU> low_;
  std::shared_ptr<ConvNormReLU> first_;
  std::shared_ptr<ConvNormReLU> second_;
  nn::Conv2d classifier_{nullptr};
};

}  // namespace lockstep::segmentation
