// SPDX-License-Identifier: Apache-2.0
// Builds the index tensors that assign predictions to objects, on the host, to be sent to the device in one copy. The
// predictions of all families (queries, denoising, dense supervision) are concatenated, so that each loss is computed
// once.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "detection/model/matcher.h"

namespace lockstep::detection {

/// A family's predictions and their pairs. The sets of decoder layers come first, because only they have distributions.
struct FamilyPairs {
  std::int64_t sets = 0;
  std::int64_t layers = 0;
  std::int64_t images = 0;
  std::int64_t queries = 0;
  std::int64_t classes = 0;
  std::function<const Matches&(std::int64_t set)> of_boxes;
  std::function<const Matches&(std::int64_t set)> of_classes = nullptr;  ///< for the class loss; null means of_boxes
  at::Tensor weight;  ///< float32 [B, Q] on the CPU: the weight of each prediction; undefined means all 1
};

/// The offsets at which a family begins, counted across all families.
struct Place {
  std::int64_t box = 0;    ///< offset in the boxes, set by set
  std::int64_t logit = 0;  ///< offset in the logits, set by set
  std::int64_t query = 0;  ///< offset in an image's queries that have distributions
  std::int64_t set = 0;    ///< offset in the sets
  std::int64_t layer = 0;  ///< offset in the sets with distributions
};

/// The offsets of all families, followed by the end.
[[nodiscard]] std::vector<Place> places_of(const std::vector<FamilyPairs>& families);

/// M pairs of a prediction and its object, in this order: K pairs of layers that learn from the last layer; the pairs
/// of last layers (J pairs up to here); pairs of sets without distributions; and, with weight 0, pairs that only the
/// class loss uses.
struct Rows {
  at::Tensor box;             ///< int64 [M]: index of the box among the boxes of all families
  at::Tensor object;          ///< float32 [M, 4]: the object's box
  at::Tensor logit;           ///< int64 [M]: index of the logit; one past the last if the class loss skips the pair
  at::Tensor corner;          ///< int64 [J]: index of the distribution
  at::Tensor ref;             ///< int64 [J]: index of the reference box
  at::Tensor sum;             ///< int64 [2 M + J]: index of each row's sum: first L1, then overlaps, then distributions
  at::Tensor weight;          ///< float32 [2 M + J]: weight of the row in its sum
  std::int64_t students = 0;  ///< K
  std::int64_t layers = 0;    ///< J
};

/// Computes the rows on the CPU. The sums are the L1 of each set, then the overlap of each set, then the distribution
/// loss of each layer.
[[nodiscard]] Rows rows_of(const std::vector<FamilyPairs>& families, const PaddedTargets& targets);

/// The predictions taught by the last layer, for each of the other layers in a family.
struct TeachingMasks {
  at::Tensor matched;  ///< float32 [P, B * Q]: 1 if the layer's prediction has an object
  at::Tensor others;   ///< 1 if it has no object; both are 0 if the prediction's weight is 0
  std::vector<double> matched_count;
  std::vector<double> other_count;
};
[[nodiscard]] TeachingMasks teaching_masks(const FamilyPairs& family);

}  // namespace lockstep::detection
