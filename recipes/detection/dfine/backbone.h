// SPDX-License-Identifier: Apache-2.0
// HGNetv2 as in D-FINE: a stem with a pooling branch, and stages of blocks that keep the outputs of all their layers.
// Source: Zhao et al., DETRs Beat YOLOs on Real-time Object Detection, 2023 (HGNetv2 is PaddleClas's PPHGNetV2).
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "detection/dfine/layers.h"
#include "detection/dfine/options.h"

namespace lockstep::detection::dfine {

/// The stem, down to a quarter of the size: two small convolutions alongside a pooling layer, so that edges are not
/// lost.
class StemBlock final : public torch::nn::Module {
 public:
  StemBlock(const std::array<std::int64_t, 2>& channels, const BackboneLayer& layer);
  at::Tensor forward(const at::Tensor& images);

 private:
  Chain stem1_{nullptr};
  Chain stem2a_{nullptr};
  Chain stem2b_{nullptr};
  Chain stem3_{nullptr};
  Chain stem4_{nullptr};
};

/// Concatenates the input and the output of each layer, then squeezes them with two 1x1 convolutions.
class HgBlock final : public torch::nn::Module {
 public:
  HgBlock(std::int64_t in, const BackboneStage& stage, const BackboneLayer& layer, bool residual);
  at::Tensor forward(const at::Tensor& x);

 private:
  bool residual_;
  std::vector<Chain> layers_;
  Chain aggregation_{nullptr};
};

class HgStage final : public torch::nn::Module {
 public:
  HgStage(const BackboneStage& stage, const BackboneLayer& layer);
  at::Tensor forward(at::Tensor x);

 private:
  Chain downsample_{nullptr};
  Chain blocks_{nullptr};
};

class HgNetV2 final : public torch::nn::Module {
 public:
  explicit HgNetV2(const Options& options);
  /// Returns the outputs of the last `levels` stages, finest first.
  std::vector<at::Tensor> forward(const at::Tensor& images_BCHW);

 private:
  std::size_t first_out_;
  std::shared_ptr<StemBlock> stem_;
  std::vector<std::shared_ptr<HgStage>> stages_;
};

}  // namespace lockstep::detection::dfine
