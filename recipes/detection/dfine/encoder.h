// SPDX-License-Identifier: Apache-2.0
// The hybrid encoder: attention over the coarsest scale, then blocks of re-parameterised convolutions that carry
// features from the coarsest scale to the finest and back.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "detection/dfine/layers.h"
#include "detection/dfine/options.h"
#include "lockstep/nn/layer_norm.h"

namespace lockstep::detection::dfine {

/// A 3x3 and a 1x1 convolution side by side, which fuse() merges into one.
/// Source: Ding et al., RepVGG: Making VGG-style ConvNets Great Again, 2021.
class VggBlock final : public torch::nn::Module {
 public:
  explicit VggBlock(std::int64_t channels);
  at::Tensor forward(const at::Tensor& x);
  /// Merges the branches for evaluation. Their entries in the state dict become a single entry, "conv". Returns false
  /// if they are already merged.
  bool join();

 private:
  Chain conv1_{nullptr};
  Chain conv2_{nullptr};
  torch::nn::Conv2d conv_{nullptr};  ///< both branches, after join()
};

/// Two parallel 1x1 convolutions, one followed by VGG blocks; their sum is the result.
class CspLayer final : public torch::nn::Module {
 public:
  CspLayer(std::int64_t in, std::int64_t out, std::int64_t blocks);
  at::Tensor forward(const at::Tensor& x);

 private:
  Chain conv1_{nullptr};
  Chain conv2_{nullptr};
  Chain bottlenecks_{nullptr};
};

/// RepNCSPELAN4: half of the channels pass through two branches in sequence; all outputs are concatenated.
class FusionBlock final : public torch::nn::Module {
 public:
  struct Widths {
    std::int64_t in = 0;
    std::int64_t out = 0;
    std::int64_t split = 0;  ///< total channels of both halves
    std::int64_t inner = 0;
    std::int64_t blocks = 3;
  };
  explicit FusionBlock(const Widths& widths);
  at::Tensor forward(const at::Tensor& x);

 private:
  Chain cv1_{nullptr};
  Chain cv2_{nullptr};
  Chain cv3_{nullptr};
  Chain cv4_{nullptr};
};

class EncoderLayer final : public torch::nn::Module {
 public:
  explicit EncoderLayer(const Options& options);
  at::Tensor forward(at::Tensor x_BNH, const at::Tensor& positions_NH);

 private:
  std::shared_ptr<MultiheadAttention> self_attn_;
  torch::nn::Linear linear1_{nullptr};
  torch::nn::Linear linear2_{nullptr};
  nn::LayerNorm norm1_{nullptr};
  nn::LayerNorm norm2_{nullptr};
};

/// The encoder. Thread-safe: no; it caches the positions for the last image size.
class HybridEncoder final : public torch::nn::Module {
 public:
  explicit HybridEncoder(const Options& options);
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& scales);

 private:
  at::Tensor attend(const at::Tensor& coarsest);

  std::int64_t hidden_;
  std::vector<Chain> input_proj_;
  std::vector<std::shared_ptr<EncoderLayer>> layers_;
  std::vector<Chain> lateral_convs_;
  std::vector<std::shared_ptr<FusionBlock>> fpn_blocks_;
  std::vector<Chain> downsample_convs_;
  std::vector<std::shared_ptr<FusionBlock>> pan_blocks_;
  at::Tensor positions_;  ///< positions for the last size
  std::vector<std::int64_t> position_sizes_;
};

}  // namespace lockstep::detection::dfine
