// SPDX-License-Identifier: Apache-2.0
// A model's weights, from any file that holds some, and their match with a model: for fine-tuning, import and export.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/torch_file.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_dict.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Weights by name, and their origin.
struct Weights {
  StateDict tensors;   ///< only tensors; names without "module." in front
  std::string origin;  ///< "weights.pth, ema.module", for people
};

/// The choice of a state for load_weights().
struct WeightsOptions {
  std::string from;  ///< the state to take: "ema", "model", "checkpoint.state_dict"; empty: the first one found
};

/// Reads the weights of `source`: a step folder, a run folder (its newest valid checkpoint), RUN:NAME, a .safetensors
/// file, a .safetensors.index.json with its parts, or a .pth or .pt file of torch.save; FILE:STATE names the state, as
/// `from` does.
///
/// Without a name, the first of these states of a checkpoint folder or a dict of states is taken: ema (ema.module),
/// model, state_dict, model_state_dict, module, net; an `ema` that has fewer entries than `model` is not whole and is
/// skipped, and a dict that itself holds tensors is the state. A "module." in front of every name is removed.
/// Throws: DataError naming the file, the fault and the states that it has; IoError.
[[nodiscard]] Weights load_weights(const std::string& source, const WeightsOptions& options = {},
                                   FileSystem& files = FileSystem::system());

/// Picks the weights of a dict as load_weights does. `file` is for messages.
/// Throws: DataError.
[[nodiscard]] Weights pick_weights(const TorchValue& value, const std::string& file,
                                   const WeightsOptions& options = {});

/// An entry that both have, with different shapes.
struct ShapeDifference {
  std::string name;                   ///< the entry's name
  std::vector<std::int64_t> model;    ///< shape in the model
  std::vector<std::int64_t> weights;  ///< shape in the weights
};

/// The entries of a model that get a value. Names are sorted.
struct WeightsMatch {
  std::vector<std::string> loaded;            ///< entries with the same name and shape
  std::vector<std::string> converted;         ///< those of `loaded` that have another dtype
  std::vector<ShapeDifference> other_shapes;  ///< entries that keep the model's values
  std::vector<std::string> missing;           ///< entries that only the model has
  std::vector<std::string> unused;            ///< entries that only the weights have
};

/// Compares names and shapes. It is a pure function that copies nothing. `model` may be named_parameters_of() or, for
/// tied weights that `weights` may have under any of their names, named_entries_of(); they count under their first
/// name.
[[nodiscard]] WeightsMatch match_weights(const NamedTensors& model, const StateDict& weights);

/// Returns a summary line, then lists of the entries that were not loaded, each with at most `limit` rows and a count.
[[nodiscard]] std::string to_text(const WeightsMatch& match, std::size_t limit = 20);

/// Copies the matching weights into the model's tensors, in their dtype.
/// Throws: DataError if nothing matches, with the nearest names, or if tied weights differ under two names.
WeightsMatch copy_weights(const NamedTensors& model, const Weights& weights);

}  // namespace lockstep

#pragma GCC visibility pop
