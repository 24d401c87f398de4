// SPDX-License-Identifier: Apache-2.0
// Loads weights from any file that contains them and matches them to a model, for fine-tuning, import and export.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
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
  StateDict tensors;   ///< tensors by name, without the prefix "module."
  std::string origin;  ///< "weights.pth, ema.module", for display
};

/// Selects the state for load_weights().
struct WeightsOptions {
  std::string from;  ///< the state to use: "ema", "model", "checkpoint.state_dict"; empty: the first one found
};

/// Reads the weights of `source`: a step folder, a run folder (its newest valid checkpoint), RUN:NAME, a .safetensors
/// file, a .safetensors.index.json with its parts, or a torch.save file (.pth, .pt). FILE:STATE sets `options.from`.
///
/// If no state is named, uses the first of these states that a checkpoint folder or a dict of states contains: ema
/// (ema.module), model, state_dict, model_state_dict, module, net. An `ema` that lacks entries of the model beside it,
/// under any of these keys, is skipped. A dict that itself holds tensors is the state. A "module." prefix on every name
/// is removed.
/// Throws: DataError naming the file, the problem and the states in the file; IoError.
[[nodiscard]] Weights load_weights(const std::string& source, const WeightsOptions& options = {},
                                   FileSystem& files = FileSystem::system());

/// Picks the weights from a dict as load_weights() does. `file` is used in messages.
/// Throws: DataError.
[[nodiscard]] Weights pick_weights(const TorchValue& value, const std::string& file,
                                   const WeightsOptions& options = {});

/// An entry whose shape in the model differs from its shape in the weights.
struct ShapeDifference {
  std::string name;                   ///< the entry's name
  std::vector<std::int64_t> model;    ///< shape in the model
  std::vector<std::int64_t> weights;  ///< shape in the weights
};

/// The match between a model's entries and weights. Names are sorted.
struct WeightsMatch {
  std::vector<std::string> loaded;            ///< entries with the same name and shape
  std::vector<std::string> converted;         ///< entries of `loaded` whose dtype differs
  std::vector<ShapeDifference> other_shapes;  ///< entries with a different shape; they keep the model's values
  std::vector<std::string> missing;           ///< entries only in the model
  std::vector<std::string> unused;            ///< entries only in the weights
};

/// Compares names and shapes. A pure function; it copies nothing. `model` may be named_parameters_of(). If `weights`
/// may have tied weights under any of their names, pass named_entries_of(); a tied weight then counts under its first
/// name.
[[nodiscard]] WeightsMatch match_weights(const NamedTensors& model, const StateDict& weights);

/// Returns a summary line, then lists of the entries that were not loaded, each with at most `limit` rows and a count
/// of the rest.
[[nodiscard]] std::string to_text(const WeightsMatch& match, std::size_t limit = 20);

/// Copies the matching weights into the model's tensors, in their dtype.
/// Throws: DataError if no entry matches (the error suggests the nearest names), or if tied weights differ under two
/// names.
WeightsMatch copy_weights(const NamedTensors& model, const Weights& weights);

}  // namespace lockstep

#pragma GCC visibility pop
