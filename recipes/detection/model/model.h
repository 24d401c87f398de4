// SPDX-License-Identifier: Apache-2.0
// The detection network: a backbone of three scales, a hybrid encoder, and a deformable decoder whose boxes are
// distributions that each layer refines. Shapes: B images, H and W pixels, L decoder layers, Q queries, D denoising
// queries, C classes, R bins of a side (reg_max + 1).
//
// It differs from the original (D-FINE) as follows: ReLU everywhere, because that fuses with batch norm
// (nn/norm_act.h); fusion blocks with one branch; configurable strides; a fixed number of denoising queries, packed
// separately for each image (denoising.h); and dense supervision of the encoder (dense.h).
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

/// One stage of the backbone, as a row of the original table.
struct StageOptions {
  std::int64_t middle = 24;  ///< channels of a block's convolutions
  std::int64_t out = 48;
  std::int64_t blocks = 1;
  std::int64_t layers = 3;  ///< number of convolutions per block
  std::int64_t kernel = 3;
  bool light = false;  ///< each convolution is a 1x1 followed by a depthwise convolution
};

struct ModelOptions {
  std::int64_t classes = 8;

  std::array<std::int64_t, 2> stem = {16, 32};  ///< channels in the middle and at the end of the stem, at stride 4
  /// The first stage has stride 4, each further stage twice the stride of the previous one; the last three are the
  /// scales. With three stages (for small images), the scales have strides 4, 8, 16; with four, 8, 16, 32.
  std::vector<StageOptions> stages = {{.middle = 32, .out = 64}, {.middle = 48, .out = 96}, {.middle = 64, .out = 160}};
  bool lab = true;  ///< add a learnable scale and bias after each activation of the backbone

  std::int64_t hidden = 96;
  std::int64_t heads = 3;
  std::int64_t encoder_layers = 1;  ///< number of transformer layers on the coarsest scale
  std::int64_t encoder_feedforward = 256;
  double expansion = 0.7;         ///< channels within a fusion block, as a fraction of hidden
  std::int64_t fusion_depth = 2;  ///< number of 3x3 convolutions in a fusion block

  std::int64_t decoder_layers = 3;
  std::int64_t decoder_feedforward = 256;
  std::int64_t queries = 100;
  std::array<std::int64_t, 3> points = {4, 4, 2};  ///< points that a head samples in each scale, finest first
  std::int64_t reg_max = 32;                       ///< number of bins per side minus 1
  double reg_scale = 4;
  double up = 0.5;

  bool dense = true;  ///< every encoder position also learns (dense.h)

  std::int64_t denoising = 60;  ///< slots per image, half of them with negative boxes; 0 means no denoising
  double label_noise = 0.5;     ///< twice the probability of changing a label
  double box_noise = 1;  ///< maximum shift, relative to half a box's size; negative boxes move by one to two times this

  /// The coarsest stride in pixels; the sides of an image must be multiples of it.
  [[nodiscard]] std::int64_t coarsest_stride() const;
};

/// A network that the criterion can train and decode() can read: Detector or the published network (dfine/network.h).
///
/// The outputs of forward(). All boxes are centre and size in 0..1, logits are before the sigmoid:
/// - "logits" [L, B, Q, C], "boxes" [L, B, Q, 4]: of each decoder layer; in evaluation only the last, L = 1
/// - "corners" [L, B, Q, 4 R]: logits of the bins of the left, top, right and bottom side
/// - "refs" [B, Q, 4]: the reference boxes of the distributions, without a gradient
/// In training also
/// - "pre_logits" [1, B, Q, C], "pre_boxes" [1, B, Q, 4]: predictions before any refinement
/// - "enc_logits" [1, B, Q, C], "enc_boxes" [1, B, Q, 4]: predictions of the encoder's positions chosen as queries
/// - "dense_logits" [1, B, T, C], "dense_boxes" [1, B, T, 4]: of all T encoder positions, if ModelOptions::dense
/// - "dense_sizes" int64 [3, 2], on the CPU: heights and widths of the scales of these positions
/// and, if there are targets and denoising slots, the denoising outputs with Q = D
/// - "dn_logits", "dn_boxes", "dn_corners", "dn_refs", "dn_pre_logits", "dn_pre_boxes"
/// - "dn_index" int64 [B, D], on the CPU: the object that a slot must restore, -1 for negative boxes and padding
/// - "dn_weight" float32 [B, D], on the CPU: the slot's weight in the losses, 1 / groups of the image; 0 for padding
class DetectionNetwork : public torch::nn::Module {
 public:
  /// `targets` may be null; evaluation ignores it. Denoising draws the same number of values from libtorch's CPU
  /// generator whatever the targets are.
  /// Throws: UsageError for images whose sides are not multiples of the coarsest stride, or too small for the queries.
  virtual Outputs forward(const at::Tensor& images_BCHW, const Targets* targets) = 0;
};

/// The network of this folder, with the children backbone, encoder and decoder.
///
/// Thread-safe: no; it caches the positions for the last image size.
class Detector final : public DetectionNetwork {
 public:
  /// Throws: UsageError for inconsistent sizes.
  explicit Detector(const ModelOptions& options);
  ~Detector() override;

  Outputs forward(const at::Tensor& images_BCHW, const Targets* targets) override;

  [[nodiscard]] const ModelOptions& options() const noexcept { return options_; }

 private:
  class Parts;
  ModelOptions options_;
  std::unique_ptr<Parts> parts_;
};

/// The objects found in one image, most certain first.
struct Found {
  at::Tensor scores;  ///< float32 [K]
  at::Tensor labels;  ///< int64 [K]
  at::Tensor boxes;   ///< float32 [K, 4]: centre and size in 0..1
};

/// Returns, for each image, the `count` most certain pairs of query and class; a query may have several classes. There
/// is no non-maximum suppression: training assigns one query to each object. Ties are ordered by query, then class.
[[nodiscard]] std::vector<Found> decode(const Outputs& outputs, std::int64_t count = 100);

/// Like decode(), but for all images at once, in D-FINE's deployment form: labels [N, K], boxes [N, K, 4] as corners in
/// pixels, scores [N, K]. `sizes`: width and height of each image, int64 [N, 2]. The order of equal scores is
/// unspecified.
[[nodiscard]] std::vector<at::Tensor> decode_together(const at::Tensor& logits, const at::Tensor& boxes,
                                                      const at::Tensor& sizes, std::int64_t count = 300);

}  // namespace lockstep::detection
