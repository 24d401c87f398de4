// SPDX-License-Identifier: Apache-2.0
// Matches predictions with objects by minimum-cost assignment, for every set of predictions and every image.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "detection/data/targets.h"

namespace lockstep::detection {

struct MatcherOptions {
  double class_weight = 2;
  double bbox_weight = 5;
  double giou_weight = 2;
  double alpha = 0.25;  ///< alpha of the focal cost
  double gamma = 2;
  bool clamp_sizes = false;  ///< a predicted size below 0 counts as 0 (CriterionOptions::as_published)
};

/// The objects of a batch in rectangular tensors. N is the largest number of objects in an image, at least 1.
struct PaddedTargets {
  at::Tensor boxes;       ///< float32 [B, N, 4]; padding is a box in the image's middle
  at::Tensor labels;      ///< int64 [B, N]; padding is 0
  at::Tensor host_boxes;  ///< `boxes` on the CPU, so that nothing has to be read back
  at::Tensor host_labels;
  std::vector<std::int64_t> counts;

  [[nodiscard]] std::int64_t total() const noexcept;
};

/// Throws: DataError that names the image if a label is outside 0..classes-1.
[[nodiscard]] PaddedTargets pad(const Targets& targets, std::int64_t classes, const at::Device& device);

/// Query `query` of an image is matched with object `object`.
struct Pair {
  std::int64_t query = 0;
  std::int64_t object = 0;
  friend bool operator==(const Pair&, const Pair&) = default;
};

/// The pairs of one image, in the order of their queries.
using Pairs = std::vector<Pair>;
/// The matches of one set of predictions: one Pairs for each image.
using Matches = std::vector<Pairs>;

/// Returns the minimum-cost assignment for each set and image, with min(objects, queries) pairs. The cost is a weighted
/// sum of the class's focal cost (positive minus negative part) and the boxes' L1 and negative GIoU.
///
/// Blocks: once, until a GPU has computed the costs; nothing else is read back.
/// Shapes: logits float32 [S, B, Q, C], boxes [S, B, Q, 4]; no gradient. `names`: names of the S sets, for messages.
/// Throws: DataError if a prediction or a cost is not finite; it names the set and the image's position.
[[nodiscard]] std::vector<Matches> match(const at::Tensor& logits, const at::Tensor& boxes,
                                         const PaddedTargets& targets, const MatcherOptions& options,
                                         const std::vector<std::string>& names);

/// Unites the pairs of all sets: each query keeps its most frequent object; ties go to the lower index.
[[nodiscard]] Matches unite(const std::vector<Matches>& sets);

}  // namespace lockstep::detection
