// SPDX-License-Identifier: Apache-2.0
// Assigns predictions to objects, as numbers of the host that go to the device in one copy. The predictions of all
// families (queries, denoising, dense supervision) lie one after another, so that each loss is computed once.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "detection/model/matcher.h"

namespace lockstep::detection {

/// A family's predictions and their pairs. The sets of decoder layers come first, as only they have distributions.
struct FamilyPairs {
  std::int64_t sets = 0;
  std::int64_t layers = 0;
  std::int64_t images = 0;
  std::int64_t queries = 0;
  std::int64_t classes = 0;
  std::function<const Matches&(std::int64_t set)> of_boxes;
  std::function<const Matches&(std::int64_t set)> of_classes = nullptr;  ///< null: the same pairs
  at::Tensor weight;  ///< float32 [B, Q] on the CPU: the weight of each prediction; undefined: all 1
};

/// The numbers at which a family begins, counted over all families.
struct Place {
  std::int64_t box = 0;    ///< boxes, set by set
  std::int64_t logit = 0;  ///< logits, set by set
  std::int64_t query = 0;  ///< queries of an image that have distributions
  std::int64_t set = 0;    ///< sets
  std::int64_t layer = 0;  ///< sets with distributions
};

/// The beginnings of all families, and last the end.
[[nodiscard]] std::vector<Place> places_of(const std::vector<FamilyPairs>& families);

/// M pairs of a prediction and its object: first the K of layers that learn from the last one, then the last layers' (J
/// so far), those of sets without distributions, and at the end, with weight 0, those only for classes.
struct Rows {
  at::Tensor box;           ///< int64 [M]: index of the box among those of all families
  at::Tensor object;        ///< float32 [M, 4]: the object's box
  at::Tensor logit;         ///< int64 [M]: index of the logit; one past the last if classes do not learn from the pair
  at::Tensor corner;        ///< int64 [J]: index of the distribution
  at::Tensor ref;           ///< int64 [J]: index of the reference box
  at::Tensor sum;           ///< int64 [2 M + J]: the sums for each row's L1, then its overlap, then its distribution
  at::Tensor weight;        ///< float32 [2 M + J]
  std::int64_t pupils = 0;  ///< K
  std::int64_t layers = 0;  ///< J
};

/// Computed on the CPU. The sums: L1 of each set, overlap of each set, distributions of each layer.
[[nodiscard]] Rows rows_of(const std::vector<FamilyPairs>& families, const PaddedTargets& targets);

/// The predictions that the last layer teaches, for each other layer of a family.
struct TeachingMasks {
  at::Tensor matched;  ///< float32 [P, B * Q]: 1 if the layer's prediction has an object
  at::Tensor others;   ///< 1 if it has none; both are 0 if the prediction's weight is
  std::vector<double> matched_count;
  std::vector<double> other_count;
};
[[nodiscard]] TeachingMasks teaching_masks(const FamilyPairs& family);

}  // namespace lockstep::detection
