// SPDX-License-Identifier: Apache-2.0
// The weights of another run or program in a task's model: entries that fit by name and shape are taken, the rest is
// listed.
#pragma once

#include <filesystem>

#include "lockstep/tensor/named_tensors.h"
#include "lockstep/train/task.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The weights that a fresh run starts from; without a path it starts from those that the seed made.
struct FirstWeights {
  std::filesystem::path path = {};  ///< a checkpoint or a file of weights; empty: none
  bool may_be_partial = false;      ///< they may fit less than half of the model, or leave parts of theirs unused
};

/// Copies the matching weights of load_weights(path) into the model's parameters and buffers, and reports the rest.
/// Weights that fill one part of the model ("backbone"), with nothing left over, may be less than half of it.
/// Throws: DataError if nothing matches; if less than half of the model's elements do, or if parameters of the model
///         stay at random while the file has entries that the model lacks, unless `may_be_partial`; if the file has no
///         weights, or the task refuses them.
void start_from_weights(Task& task, const NamedTensors& model, const FirstWeights& from);

}  // namespace lockstep

#pragma GCC visibility pop
