// SPDX-License-Identifier: Apache-2.0
// The detection network: a backbone of three scales, a hybrid encoder, and a deformable decoder whose boxes are
// distributions that each layer refines. Shapes: B images, H and W pixels, L decoder layers, Q queries, D denoising
// queries, C classes, R bins of a side (reg_max + 1).
//
// It differs from the origin (D-FINE) in these points: ReLU everywhere (it fuses with batch norm, nn/norm_act.h),
// fusion blocks of one branch, configurable strides, denoising queries packed for each image by itself (denoising.h) so
// that their number does not depend on the batch, and dense supervision of the encoder (dense.h).
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "detection/data/targets.h"
#include "lockstep/train/task.h"

namespace lockstep::detection {

/// One stage of the backbone, as a row of the origin's table.
struct StageOptions {
  std::int64_t middle = 24;  ///< channels of a block's convolutions
  std::int64_t out = 48;
  std::int64_t blocks = 1;
  std::int64_t layers = 3;  ///< convolutions of a block
  std::int64_t kernel = 3;
  bool light = false;  ///< each convolution is a 1x1 one, then a depthwise one
};

struct ModelOptions {
  std::int64_t classes = 8;

  std::array<std::int64_t, 2> stem = {16, 32};  ///< channels in its middle and at its end, at stride 4
  /// From stride 4 on, each has twice the stride of the one before it; the last three are the scales. With three stages
  /// their strides are 4, 8, 16 (for small pictures), with four 8, 16, 32.
  std::vector<StageOptions> stages = {{.middle = 32, .out = 64}, {.middle = 48, .out = 96}, {.middle = 64, .out = 160}};
  bool lab = true;  ///< a learnable scale and bias after each activation of the backbone

  std::int64_t hidden = 96;
  std::int64_t heads = 3;
  std::int64_t encoder_layers = 1;  ///< transformer layers on the coarsest scale
  std::int64_t encoder_feedforward = 256;
  double expansion = 0.7;         ///< channels within a fusion block, as a share of hidden
  std::int64_t fusion_depth = 2;  ///< 3x3 convolutions of a fusion block

  std::int64_t decoder_layers = 3;
  std::int64_t decoder_feedforward = 256;
  std::int64_t queries = 100;
  std::array<std::int64_t, 3> points = {4, 4, 2};  ///< points that a head samples in each scale, the finest first
  std::int64_t reg_max = 32;                       ///< there are reg_max + 1 bins per side
  double reg_scale = 4;
  double up = 0.5;

  bool dense = true;  ///< every position of the encoder learns too (dense.h)

  std::int64_t denoising = 60;  ///< slots per image, half of them with negative boxes; 0: none
  double label_noise = 0.5;     ///< half of it is the probability of another label
  double box_noise = 1;         ///< share of half a box's size; negative boxes move by once to twice that

  /// The number of pixels that the sides of a picture must be a multiple of.
  [[nodiscard]] std::int64_t coarsest_stride() const;
};

/// A network that the criterion can train and decode() can read: this one or the published one (dfine/network.h).
///
/// The outputs of forward(). All boxes are centre and size in 0..1, logits are before the sigmoid:
/// - "logits" [L, B, Q, C], "boxes" [L, B, Q, 4]: of each decoder layer; in evaluation only of the last one, L = 1
/// - "corners" [L, B, Q, 4 R]: logits of the bins of the left, top, right and bottom side
/// - "refs" [B, Q, 4]: the boxes that the distributions are relative to, without a gradient
/// In training also
/// - "pre_logits" [1, B, Q, C], "pre_boxes" [1, B, Q, 4]: before any refinement
/// - "enc_logits" [1, B, Q, C], "enc_boxes" [1, B, Q, 4]: of the queries chosen from the encoder
/// - "dense_logits" [1, B, T, C], "dense_boxes" [1, B, T, 4]: of all T positions of the encoder, if ModelOptions::dense
/// - "dense_sizes" int64 [3, 2], on the CPU: heights and widths of the scales of these positions
/// and, if there are targets and denoising slots, the same with Q = D
/// - "dn_logits", "dn_boxes", "dn_corners", "dn_refs", "dn_pre_logits", "dn_pre_boxes"
/// - "dn_index" int64 [B, D], on the CPU: the object that a slot is to restore, -1 for negative boxes and padding
/// - "dn_weight" float32 [B, D], on the CPU: the slot's weight in the losses, 1 / groups of the image; 0 for padding
class DetectionNetwork : public torch::nn::Module {
 public:
  /// `targets` may be null; evaluation ignores it. Denoising draws equally many numbers from libtorch's CPU generator
  /// for any targets.
  /// Throws: UsageError for pictures whose sides are not multiples of the coarsest stride, or too small for the
  /// queries.
  virtual Outputs forward(const at::Tensor& images_BCHW, const Targets* targets) = 0;
};

/// The network of this folder. Children: backbone, encoder, decoder.
///
/// Thread-safe: no; it keeps the positions for the last picture size.
class Detector final : public DetectionNetwork {
 public:
  /// Throws: UsageError for sizes that do not fit together.
  explicit Detector(const ModelOptions& options);
  ~Detector() override;

  Outputs forward(const at::Tensor& images_BCHW, const Targets* targets) override;

  [[nodiscard]] const ModelOptions& options() const noexcept { return options_; }

 private:
  class Parts;
  ModelOptions options_;
  std::unique_ptr<Parts> parts_;
};

/// The objects found in one image, the most certain first.
struct Found {
  at::Tensor scores;  ///< float32 [K]
  at::Tensor labels;  ///< int64 [K]
  at::Tensor boxes;   ///< float32 [K, 4]: centre and size in 0..1
};

/// Returns, for each image, the `count` most certain pairs of query and class; a query may have several classes. Boxes
/// are not suppressed: training makes one query answer for an object. Equal scores: by query and class.
[[nodiscard]] std::vector<Found> decode(const Outputs& outputs, std::int64_t count = 100);

/// The same for all images at once, as D-FINE deploys it: labels [N, K], boxes [N, K, 4] as corners in pixels, scores
/// [N, K]. `sizes`: width and height of each image, int64 [N, 2]. Equal scores are in no order.
[[nodiscard]] std::vector<at::Tensor> decode_together(const at::Tensor& logits, const at::Tensor& boxes,
                                                      const at::Tensor& sizes, std::int64_t count = 300);

}  // namespace lockstep::detection
