// SPDX-License-Identifier: Apache-2.0
// The loss of the detection network: matching, and the terms of every set of predictions (decoder layers, initial
// boxes, encoder, denoising). All ranks call it the same way whatever their batches hold.
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
  double alpha = 0.75;                 ///< for vfl: the weight of negatives
  double gamma = 1.5;                  ///< 2 with vfl
  bool union_matching = true;          ///< boxes learn from the pairs of all layers, each query from its most frequent
  double temperature = 5;              ///< temperature of ddf

  /// As the published sources do it where this recipe chose otherwise: a predicted size below 0 counts as 0 where boxes
  /// are compared, and the ddf of denoising weights its matched and other slots with the counts of the queries.
  bool as_published = false;

  MatcherOptions matcher;

  double reg_scale = 4;  ///< as the network's
  double up = 0.5;
};

/// Sums a float32 tensor of one dimension over all replicas, in place.
using Reduce = std::function<void(const at::Tensor&)>;

/// The terms of a batch, weighted, so that the loss is their sum: "vfl" or "mal", "bbox", "giou", "fgl", "ddf", with
/// _aux_i, _pre, _enc_0, _dn_i, _dn_pre, _dense. The same names, in the same order, whatever it holds. Every term is
/// divided by the number of boxes, a replica's mean over the run and at least 1.
///
/// Collective: one reduce() of five numbers, always. Null: this replica is the only one.
/// Shapes:     `outputs` of Detector in training. Of an image with more boxes than queries as many are matched as there
///             are queries.
/// Throws:     DataError where a prediction is not finite: it says which. The losses themselves hide nothing.
/// Example:    auto terms = criterion(outputs, targets, {}, [](const at::Tensor& t) { this_replica().all_reduce(t); });
[[nodiscard]] std::vector<LossTerm> criterion(const Outputs& outputs, const Targets& targets,
                                              const CriterionOptions& options, const Reduce& reduce = nullptr);

/// The sum: the loss.
[[nodiscard]] at::Tensor sum(const std::vector<LossTerm>& terms);

}  // namespace lockstep::detection
