// SPDX-License-Identifier: Apache-2.0
// Adapts weights trained for a different task, as the original code does before it loads the matching entries.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <string>
#include <vector>

#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_dict.h"

namespace lockstep::detection::dfine {

/// Adapts `weights`, from a file with the original names, to `model`. Returns a sentence for each change:
/// - the entries of just a backbone (HGNetv2's stage-1 weights) get the prefix "backbone."
/// - if the number of classes differs, the denoising embedding is dropped
/// - score heads are converted between Objects365 and COCO's 80 classes, class by class
/// - anchors and constants, which the network computes itself, are dropped
/// Throws: DataError if the bins of the file's distributions (reg_scale, up) differ from the model's.
std::vector<std::string> fit_weights(StateDict& weights, const NamedTensors& model);

}  // namespace lockstep::detection::dfine
