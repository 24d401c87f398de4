// SPDX-License-Identifier: Apache-2.0
// The refinement of a decoder's queries: their boxes are distributions over the distances of the four sides, and each
// layer corrects the distributions. Both networks (model/, dfine/) use it, with their own layers.
// Source: Peng et al., D-FINE: Redefine Regression Task of DETRs as Fine-grained Distribution Refinement, 2024.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <vector>

#include "detection/model/box.h"
#include "detection/model/deformable.h"
#include "detection/model/denoising.h"
#include "detection/model/layers.h"
#include "lockstep/nn/layer_norm.h"
#include "lockstep/train/task.h"

namespace lockstep::detection {

/// The encoder's output, for the decoder's attention.
struct Memory {
  at::Tensor tokens;  ///< [B, T, hidden]: the scales' positions one after another
  ScaleSizes sizes;
};

struct Queries {
  at::Tensor content;  ///< [B, Q, hidden]
  at::Tensor boxes;    ///< [B, Q, 4], no gradient
};

/// The results for all queries: denoising slots and real queries.
struct Refined {
  std::vector<at::Tensor> logits;
  std::vector<at::Tensor> boxes;
  std::vector<at::Tensor> corners;
  at::Tensor refs;
  at::Tensor pre_logits;
  at::Tensor pre_boxes;
};

struct Refinement {
  at::Tensor mask;  ///< attention mask between the queries; undefined means no mask
  at::Tensor bins;  ///< bin_distances()
  double reg_scale = 4;
  std::size_t last = 0;   ///< index of the layer whose results are used in evaluation
  bool training = false;  ///< if true, the results of all layers are used
};

/// Combines the old and the new value of a query with two learned gates, then applies layer norm.
template <class Linear>
class Gate final : public torch::nn::Module {
 public:
  explicit Gate(std::int64_t hidden)
      : gate_(register_module("gate", Linear(2 * hidden, 2 * hidden))),
        norm_(register_module("norm", layer_norm(hidden))) {
    start_at_zero(*gate_);
  }
  at::Tensor forward(const at::Tensor& was, const at::Tensor& saw) {
    const std::vector<at::Tensor> shares = at::sigmoid(gate_->forward(at::cat({was, saw}, -1))).chunk(2, -1);
    return norm_->forward(shares[0] * was + shares[1] * saw);
  }

 private:
  Linear gate_{nullptr};
  nn::LayerNorm norm_{nullptr};
};

/// Corrects a class logit according to how certain the box's distributions are.
template <class Head>
class QualityEstimator final : public torch::nn::Module {
 public:
  static constexpr std::int64_t kTopBins = 4;
  /// The widths of the head.
  static std::vector<std::int64_t> widths() { return {4 * (kTopBins + 1), 64, 1}; }

  /// `head` has these widths; its last layer starts at zero.
  QualityEstimator(std::int64_t bins, const Head& head) : bins_(bins), reg_conf_(register_module("reg_conf", head)) {}
  /// Shapes: logits [B, Q, C], corners [B, Q, 4 R].
  at::Tensor forward(const at::Tensor& logits, const at::Tensor& corners) {
    const std::int64_t batch = corners.size(0);
    const std::int64_t count = corners.size(1);
    const at::Tensor shares = at::softmax(corners.view({batch, count, 4, bins_}), -1);
    const at::Tensor top = std::get<0>(at::topk(shares, kTopBins, -1));
    const at::Tensor features = at::cat({top, top.mean(-1, /*keepdim=*/true)}, -1).view({batch, count, -1});
    return logits + reg_conf_->forward(features);
  }

 private:
  std::int64_t bins_;
  Head reg_conf_{nullptr};
};

/// Refines `queries` with the decoder's `query_pos_head` and `pre_bbox_head` and, in each layer, its `layers`,
/// `score_heads`, `box_heads` and `quality`.
template <class Heads>
Refined refine(Heads& heads, const Queries& queries, const Memory& memory, const Refinement& settings) {
  constexpr double kFarthest = 10;
  Refined refined;
  at::Tensor content = queries.content;
  at::Tensor content_before;
  at::Tensor corners;
  at::Tensor boxes = queries.boxes;
  for (std::size_t i = 0; i <= settings.last; ++i) {
    const at::Tensor positions = heads.query_pos_head->forward(boxes).clamp(-kFarthest, kFarthest);
    content = heads.layers[i]->forward(content, positions, boxes, memory, settings.mask);
    if (i == 0) {
      refined.pre_boxes = at::sigmoid(at_least_float(heads.pre_bbox_head->forward(content)) + inverse_sigmoid(boxes));
      if (settings.training) refined.pre_logits = heads.score_heads[0]->forward(content);
      refined.refs = refined.pre_boxes.detach();
    }
    const at::Tensor change =
        at_least_float(heads.box_heads[i]->forward(content_before.defined() ? content + content_before : content));
    corners = corners.defined() ? corners + change : change;
    const at::Tensor found = moved(refined.refs, expected_distances(corners, settings.bins), settings.reg_scale);
    if (settings.training || i == settings.last) {
      const at::Tensor scores = at_least_float(heads.score_heads[i]->forward(content));
      refined.logits.push_back(heads.quality[i]->forward(scores, corners));
      refined.boxes.push_back(found);
      refined.corners.push_back(corners);
    }
    boxes = found.detach();
    content_before = content.detach();
  }
  return refined;
}

/// Stores the results in `outputs` under the names in model.h. `denoising` may be null; its slots come before the
/// `queries`.
void put(const Refined& refined, const Denoising* denoising, std::int64_t queries, Outputs& outputs);

/// Rows `index` [B, K] of `from` [B, N, X].
[[nodiscard]] at::Tensor rows(const at::Tensor& from, const at::Tensor& index);

/// A box of width and height `size` around the centre of each cell of a scale. Shapes: [height * width, 4].
[[nodiscard]] at::Tensor boxes_of_cells(std::int64_t height, std::int64_t width, double size);

/// The positions of all scales, one after another. Converted to float32 once, here, rather than in each layer.
[[nodiscard]] Memory flattened(const std::vector<at::Tensor>& scales);

}  // namespace lockstep::detection
