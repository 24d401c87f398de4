// SPDX-License-Identifier: Apache-2.0
// The names of the network's tensors in the original files (such as model_best.pth).
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <string>
#include <vector>

#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_dict.h"
#include "segmentation/model/model.h"

namespace lockstep::segmentation {

/// Renames the entries of `weights` to their names in `model`, and drops torchvision's classifier. The original decoder
/// puts layer1's channels first, so the input channels of its first convolution are reordered. Returns the changes, for
/// notes.
/// Throws: anything common::OriginNames::take() throws.
std::vector<std::string> take_origin_names(StateDict& weights, const NamedTensors& model);

/// The entries of a network under the original names: everything that a strict load in the original code requires.
/// Throws: UsageError naming the part of the network that the original code lacks.
[[nodiscard]] StateDict give_origin_names(const StateDict& model, const ModelOptions& options);

}  // namespace lockstep::segmentation
