// SPDX-License-Identifier: Apache-2.0
// The backbone: convolutions like HGNetv2's, down to three scales.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "detection/model/model.h"

namespace lockstep::detection {

/// A block: concatenates its input and the output of each of its convolutions, then squeezes them with two 1x1
/// convolutions.
class AggregationBlock final : public torch::nn::Module {
 public:
  AggregationBlock(std::int64_t in, const StageOptions& stage, bool lab, bool residual);
  at::Tensor forward(at::Tensor x);

 private:
  bool residual_;
  std::vector<torch::nn::Sequential> layers_;
  torch::nn::Sequential aggregation_{nullptr};
};

/// A stage: halves the size (except in the first stage), then applies its blocks.
class Stage final : public torch::nn::Module {
 public:
  Stage(std::int64_t in, const StageOptions& stage, bool lab, bool downsample);
  at::Tensor forward(at::Tensor x);

 private:
  torch::nn::Sequential downsample_{nullptr};
  std::vector<std::shared_ptr<AggregationBlock>> blocks_;
};

/// The stem, down to a quarter of the size: a convolution, then another alongside a pooling layer, to keep small
/// objects.
class Stem final : public torch::nn::Module {
 public:
  Stem(std::int64_t middle, std::int64_t out, bool lab);
  at::Tensor forward(const at::Tensor& images);

 private:
  torch::nn::Sequential first_{nullptr};
  torch::nn::Sequential branch_{nullptr};
  torch::nn::Sequential last_{nullptr};
};

class Backbone final : public torch::nn::Module {
 public:
  explicit Backbone(const ModelOptions& options);
  /// Returns the outputs of the last three stages, finest first.
  std::vector<at::Tensor> forward(const at::Tensor& images_BCHW);

 private:
  std::shared_ptr<Stem> stem_;
  std::vector<std::shared_ptr<Stage>> stages_;
};

}  // namespace lockstep::detection
