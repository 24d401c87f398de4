// SPDX-License-Identifier: Apache-2.0
// Which predictions learn from which objects, as numbers of the host that go to the device in one copy. The predictions
// of all families (queries, denoising, dense supervision) lie one after another, so that each loss is computed once.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "detection/model/matcher.h"

namespace lockstep::detection {

/// A family's predictions and their pairs. Sets of decoder layers come first: those have distributions.
struct FamilyPairs {
  std::int64_t sets = 0;
  std::int64_t layers = 0;
  std::int64_t images = 0;
  std::int64_t queries = 0;
  std::int64_t classes = 0;
  std::function<const Matches&(std::int64_t set)> of_boxes;
  std::function<const Matches&(std::int64_t set)> of_classes = nullptr;  ///< null: the same pairs
  at::Tensor weight;  ///< float32 [B, Q] of the CPU: of each prediction; undefined: all 1
};

/// A family's first number among those of all families.
struct Place {
  std::int64_t box = 0;    ///< boxes, set by set
  std::int64_t logit = 0;  ///< logits, set by set
  std::int64_t query = 0;  ///< queries of an image that have distributions
  std::int64_t set = 0;    ///< sets
  std::int64_t layer = 0;  ///< sets with distributions
};

/// Where each family begins, and last where all end.
[[nodiscard]] std::vector<Place> places_of(const std::vector<FamilyPairs>& families);

/// M rows are pairs of a prediction and its object: first the K of layers that learn from the last one, then the others
/// of layers (J so far), at the end those that only classes learn from, whose weight is 0.
struct Rows {
  at::Tensor box;     ///< int64 [M]: which box of all families'
  at::Tensor object;  ///< float32 [M, 4]: the object's
  at::Tensor logit;   ///< int64 [M]: which logit; where classes do not learn from the pair the one past the last
  at::Tensor corner;  ///< int64 [J]: which distribution
  at::Tensor ref;     ///< int64 [J]: which reference box
  at::Tensor sum;     ///< int64 [2 M + J]: which sum the row's L1, then its overlap, then its distribution goes to
  at::Tensor weight;  ///< float32 [2 M + J]
  std::int64_t pupils = 0;  ///< K
  std::int64_t layers = 0;  ///< J
};

/// On the CPU. Sums: the sets' of L1, the sets' of overlaps, the layers' of distributions.
[[nodiscard]] Rows rows_of(const std::vector<FamilyPairs>& families, const PaddedTargets& targets);

/// Which of a family's predictions the last layer teaches with which weight.
struct TeachingMasks {
  at::Tensor matched;  ///< float32 [P, B * Q]: 1 where the prediction of a layer has an object
  at::Tensor others;   ///< 1 where it has none; both are 0 where the weight is
  std::vector<double> matched_count;
  std::vector<double> other_count;
};
[[nodiscard]] TeachingMasks teaching_masks(const FamilyPairs& family);

}  // namespace lockstep::detection
