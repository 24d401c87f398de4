// SPDX-License-Identifier: Apache-2.0
// The names of the networks' tensors in the original snapshots (caption_model_27.pth) of X-LAN and PureT.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <string>
#include <vector>

#include "captioning/model/model.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_dict.h"

namespace lockstep::captioning {

/// True if the weights are from the original network of this type.
[[nodiscard]] bool are_origins(const StateDict& weights, ModelType type);

/// Renames the entries of `weights` to their names in `model`: merges separate projections, puts the parts of the LSTM
/// in this network's order, and drops entries that are computed here. Returns the changes, for notes.
/// Throws: anything common::OriginNames::take() throws.
std::vector<std::string> take_origin_names(StateDict& weights, const NamedTensors& model, ModelType type);

/// The entries of a network under the original names, with the original trainer's prefix "module.": everything a strict
/// load in the original code requires. Throws: UsageError naming the part of the network that the original lacks.
[[nodiscard]] StateDict give_origin_names(const StateDict& model, const ModelOptions& options);

}  // namespace lockstep::captioning
