// SPDX-License-Identifier: Apache-2.0
// D-FINE's decoder: chooses queries among the encoder's positions, and refines their boxes from layer to layer, as
// distributions over the distances of the four sides.
// Source: Peng et al., D-FINE: Redefine Regression Task of DETRs as Fine-grained Distribution Refinement, 2024.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "detection/dfine/decoder_layer.h"
#include "detection/dfine/layers.h"
#include "detection/dfine/options.h"
#include "detection/model/denoising.h"
#include "detection/model/refine.h"
#include "lockstep/train/task.h"

namespace lockstep::detection::dfine {

/// The boxes of all positions, before the sigmoid. If a position's centre or size is within 0.01 of 0 or 1, its `valid`
/// is 0 and its box is filled with a number whose sigmoid is 1.
struct Anchors {
  at::Tensor boxes;  ///< float32 [T, 4]
  at::Tensor valid;  ///< bool [T, 1]
};
/// `sizes`: the sizes of the scales, finest first.
[[nodiscard]] Anchors anchors_of(const ScaleSizes& sizes);

/// The decoder. Thread-safe: no; it caches the anchors for the last image size.
class Decoder final : public torch::nn::Module {
 public:
  explicit Decoder(const Options& options);
  /// `scales`: the encoder's outputs. `denoising` may be null. Returns the outputs of DetectionNetwork (model/model.h).
  Outputs forward(const std::vector<at::Tensor>& scales, const Denoising* denoising);

 private:
  void register_heads();
  [[nodiscard]] std::vector<at::Tensor> projected(const std::vector<at::Tensor>& scales);
  const Anchors& anchors(const ScaleSizes& sizes, const at::Tensor& like);
  Queries choose(const Memory& memory, Outputs& outputs);
  void prepend(Queries& queries, const Denoising& denoising);

  Options options_;
  std::vector<Chain> input_proj_;  ///< empty if the encoder has as many channels as the decoder
  torch::nn::Embedding denoising_class_embed_{nullptr};
  Chain enc_output_{nullptr};
  torch::nn::Linear enc_score_head_{nullptr};
  std::shared_ptr<Mlp> enc_bbox_head_;
  struct Heads {
    std::shared_ptr<Mlp> query_pos_head;
    std::shared_ptr<Mlp> pre_bbox_head;
    std::vector<std::shared_ptr<DecoderLayer>> layers;
    std::vector<torch::nn::Linear> score_heads;
    std::vector<std::shared_ptr<Mlp>> box_heads;
    std::vector<std::shared_ptr<QualityEstimator<std::shared_ptr<Mlp>>>> quality;
  } heads_;
  at::Tensor bins_;
  Anchors anchors_;  ///< anchors for the last sizes
  ScaleSizes anchor_sizes_;
};

}  // namespace lockstep::detection::dfine
