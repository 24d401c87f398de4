// SPDX-License-Identifier: Apache-2.0
// The loss of the detection network: the matching, and the loss terms of every set of predictions (decoder layers,
// initial boxes, encoder, denoising). All ranks make the same collective calls, whatever is in their batches.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "detection/data/targets.h"
#include "detection/model/matcher.h"
#include "lockstep/train/task.h"

namespace lockstep::detection {

struct CriterionOptions {
  double class_weight = 1;
  double bbox_weight = 5;
  double giou_weight = 2;
  double fgl_weight = 0.15;
  double ddf_weight = 1.5;

  std::string classification = "mal";  ///< vfl, mal
  double alpha = 0.75;                 ///< weight of negatives, for vfl
  double gamma = 1.5;                  ///< exponent; 2 is usual with vfl
  bool union_matching = true;          ///< boxes learn from all layers' pairs, each query from its most frequent one
  double temperature = 5;              ///< temperature of ddf

  /// If true, follows the published code in two places that this recipe changed. A predicted size below 0 counts as 0
  /// in comparisons of boxes, and the ddf of denoising weights its means by the counts of the queries instead of its
  /// own.
  bool as_published = false;

  MatcherOptions matcher;

  double reg_scale = 4;  ///< reg_scale of the network
  double up = 0.5;
};

/// All-reduces (sums) a one-dimensional float32 tensor over all replicas, in place.
using Reduce = std::function<void(const at::Tensor&)>;

/// The weighted terms of a batch; the loss is their sum. They are "vfl" or "mal", "bbox", "giou", "fgl", "ddf", with
/// the suffixes _aux_i, _pre, _enc_0, _dn_i, _dn_pre, _dense. Their names and order do not depend on the batch. Every
/// term except "ddf" is divided by the number of boxes or pairs that it covers, averaged over the replicas and at least
/// 1.
///
/// Collective: exactly one reduce() of five numbers. `reduce` is null if this replica is the only one.
/// Shapes:     `outputs` are Detector's in training. If an image has more boxes than there are queries, only that many
///             boxes are matched.
/// Throws:     DataError if a prediction is not finite; it names the prediction. Such values are never masked.
/// Example:    auto terms = criterion(outputs, targets, {}, [](const at::Tensor& t) { this_replica().all_reduce(t); });
[[nodiscard]] std::vector<LossTerm> criterion(const Outputs& outputs, const Targets& targets,
                                              const CriterionOptions& options, const Reduce& reduce = nullptr);

/// The sum of the terms: the loss.
[[nodiscard]] at::Tensor sum(const std::vector<LossTerm>& terms);

}  // namespace lockstep::detection
