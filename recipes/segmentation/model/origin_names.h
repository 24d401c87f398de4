// SPDX-License-Identifier: Apache-2.0
// The names that the origin's files (model_best.pth and so on) have for the network's tensors.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <string>
#include <vector>

#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_dict.h"
#include "segmentation/model/model.h"

namespace lockstep::segmentation {

/// Gives entries of `weights` the names that they have in `model`, and drops torchvision's classifier. Where the
/// origin's decoder sees layer1's channels first, the columns of its first convolution are moved. Returns what was
/// done, for notes. Throws: as common::OriginNames::take().
std::vector<std::string> take_origin_names(StateDict& weights, const NamedTensors& model);

/// The entries of a network under the origin's names: all that its strict load asks for.
/// Throws: UsageError naming what of the network the origin does not have.
[[nodiscard]] StateDict give_origin_names(const StateDict& model, const ModelOptions& options);

}  // namespace lockstep::segmentation
