// SPDX-License-Identifier: Apache-2.0
// Weights that were trained for something else: what the origin does to a file's entries before it takes those that
// fit.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <string>
#include <vector>

#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_dict.h"

namespace lockstep::detection::dfine {

/// Makes `weights`, of a file under the origin's names, fit `model`, and says what was done, a sentence each:
/// - a backbone alone (HGNetv2's stage-1 weights) becomes the network's "backbone."
/// - of another number of classes, the embedding of denoising is dropped
/// - score heads of Objects365 and of COCO's 80 classes are turned into each other, class by class
/// - anchors and constants, which the network computes itself, are dropped
/// Throws: DataError where the file's distributions have other bins (reg_scale, up) than the model's.
std::vector<std::string> fit_weights(StateDict& weights, const NamedTensors& model);

}  // namespace lockstep::detection::dfine
