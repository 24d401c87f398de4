// SPDX-License-Identifier: Apache-2.0
// The names that the origins' snapshots (caption_model_27.pth) have for the networks' tensors: X-LAN's and PureT's.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <string>
#include <vector>

#include "captioning/model/model.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_dict.h"

namespace lockstep::captioning {

/// Whether the weights are those of the origin's network of this type.
[[nodiscard]] bool are_origins(const StateDict& weights, ModelType type);

/// Gives entries of `weights` the names that they have in `model`: projections side by side become one, the parts of
/// the LSTM are put in this network's order, what is computed here is dropped. Returns what was done, for notes.
/// Throws: as common::OriginNames::take().
std::vector<std::string> take_origin_names(StateDict& weights, const NamedTensors& model, ModelType type);

/// The entries of a network under the origin's names, "module." in front as its trainer writes them: all that its
/// strict load asks for. Throws: UsageError naming what of the network the origin does not have.
[[nodiscard]] StateDict give_origin_names(const StateDict& model, const ModelOptions& options);

}  // namespace lockstep::captioning
