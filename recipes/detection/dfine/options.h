// SPDX-License-Identifier: Apache-2.0
// The sizes of the published network (D-FINE, DEIM), with the original defaults.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::detection::dfine {

/// One stage of HGNetv2.
struct BackboneStage {
  std::int64_t in = 0;
  std::int64_t middle = 0;
  std::int64_t out = 0;
  std::int64_t blocks = 1;
  bool downsample = true;
  bool light = false;  ///< each convolution is a 1x1 followed by a depthwise convolution
  std::int64_t kernel = 3;
  std::int64_t layers = 3;  ///< number of convolutions per block
};

/// A row of the original table of backbones.
struct BackboneShape {
  std::array<std::int64_t, 2> stem = {};  ///< channels in the middle and at the end of the stem
  std::array<BackboneStage, 4> stages = {};
};

/// Returns the sizes of "B0" to "B6". Throws: UsageError for another name.
[[nodiscard]] const BackboneShape& backbone_shape(const std::string& name);
/// The names for backbone_shape().
[[nodiscard]] std::vector<std::string> backbone_names();

struct Options {
  std::int64_t classes = 80;
  std::int64_t image_size = 640;  ///< the image size expected in evaluation, for which the state dict has anchors

  std::string backbone = "B0";
  bool use_lab = false;          ///< add a learnable scale and bias after each activation of the backbone
  std::int64_t levels = 3;       ///< number of scales: the last ones of the strides 4, 8, 16, 32
  std::int64_t freeze_at = 0;    ///< 0 freezes the backbone's stem; -1 freezes nothing
  bool freeze_stem_only = true;  ///< if false, the backbone's stages up to freeze_at are also frozen
  bool freeze_norm = true;       ///< the backbone's batch norms keep their statistics, scales and shifts

  std::int64_t encoder_hidden = 256;
  std::int64_t encoder_heads = 8;
  std::int64_t encoder_layers = 1;  ///< number of transformer layers on the coarsest scale
  std::int64_t encoder_feedforward = 1024;
  double expansion = 1;   ///< factor for the channels within a fusion block
  double depth_mult = 1;  ///< factor for the number (3) of re-parameterised convolutions in a fusion block

  std::int64_t hidden = 256;  ///< width of the decoder
  std::int64_t heads = 8;
  std::int64_t layers = 6;
  std::int64_t feedforward = 1024;
  std::int64_t eval_idx = -1;  ///< index of the layer used in evaluation; negative values count from the end
  std::vector<std::int64_t> points = {3, 6, 3};  ///< points that a head samples in each scale, finest first
  std::int64_t queries = 300;
  std::string activation = "relu";      ///< activation of feed-forward layers and quality estimators: relu or silu
  std::string mlp_activation = "relu";  ///< activation of the decoder's heads
  std::int64_t reg_max = 32;
  double reg_scale = 4;
  double up = 0.5;

  std::int64_t denoising = 100;  ///< number of noisy objects per image, and of negative boxes; 0 means no denoising
  double label_noise = 0.5;
  double box_noise = 1;

  /// Index of the layer that evaluation uses.
  [[nodiscard]] std::int64_t last_layer() const { return eval_idx < 0 ? layers + eval_idx : eval_idx; }
  /// The side in pixels, at least 64, of the smallest square image that has a position for each query.
  [[nodiscard]] std::int64_t smallest_side() const;
  /// The stride of the finest scale.
  [[nodiscard]] std::int64_t finest_stride() const { return std::int64_t{64} >> levels; }
};

constexpr std::int64_t kCoarsestStride = 32;

/// Throws: UsageError naming the sizes that are inconsistent.
void check(const Options& options);

}  // namespace lockstep::detection::dfine
