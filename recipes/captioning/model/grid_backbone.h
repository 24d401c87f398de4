// SPDX-License-Identifier: Apache-2.0
// Maps images, or features that another program has computed from images, to the tokens that the networks attend to.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "captioning/model/layers.h"
#include "captioning/model/model.h"

namespace lockstep::captioning {

/// A convolutional network trained together with the rest. Its convolutions and norms are from lockstep::nn, so on a
/// CPU they run fused in channels-last format, and sync_batch_norm() can find the norms.
class GridBackbone : public torch::nn::Module {
 public:
  /// Shapes: float [B, 3, H, W] to [B, channels(), H / stride, W / stride], rounded up.
  virtual at::Tensor forward(const at::Tensor& pictures) = 0;
  [[nodiscard]] virtual std::int64_t channels() const = 0;
};

/// Creates a backbone; null for BackboneType::kNone. Throws: UsageError for an unsupported depth, stride or width.
[[nodiscard]] std::shared_ptr<GridBackbone> make_backbone(const BackboneOptions& options);

/// Features of B images at the network's width.
struct Features {
  at::Tensor tokens = {};   ///< [B, L, dim]; a grid is stored row by row
  at::Tensor global = {};   ///< [B, dim]: the mean of the valid tokens, before positions are added
  at::Tensor mask = {};     ///< bool [B, L], true for valid tokens; undefined if all are valid
  std::int64_t height = 0;  ///< height of the grid; height * width = L, or both are 0 if there is no grid
  std::int64_t width = 0;
};

/// The backbone, if there is one, then Linear, CELU(1.3) and dropout. Sinusoids of row and column are added to a
/// backbone's grid, because captions mention positions.
class FeatureEmbedding final : public torch::nn::Module {
 public:
  /// Throws: UsageError if sizes do not match.
  FeatureEmbedding(const ModelOptions& options, double dropout);

  /// Takes the arguments of Captioner::encode(). Features without a backbone have a grid (from the options) only if all
  /// images have L rows.
  Features forward(const at::Tensor& data, const std::vector<std::int64_t>& lengths);

 private:
  Features of_pictures(const at::Tensor& pictures);
  Features of_rows(const at::Tensor& rows, const std::vector<std::int64_t>& lengths);
  const at::Tensor& positions(const Features& grid, const at::Device& device);

  ModelOptions options_;
  std::shared_ptr<GridBackbone> backbone_;
  nn::Linear embed_{nullptr};
  nn::Dropout dropout_{nullptr};
  at::Tensor positions_;  ///< positions for a grid of the size below
  std::int64_t positions_height_ = 0;
  std::int64_t positions_width_ = 0;
};

}  // namespace lockstep::captioning
