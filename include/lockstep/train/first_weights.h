// SPDX-License-Identifier: Apache-2.0
// Copies weights from another run or program into a task's model: entries that match by name and shape are copied, and
// the rest is reported.
#pragma once

#include <filesystem>

#include "lockstep/tensor/named_tensors.h"
#include "lockstep/train/task.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The weights that a fresh run starts from; without a path it starts from random weights, drawn from the seed.
struct FirstWeights {
  std::filesystem::path path = {};  ///< a checkpoint or a file of weights; empty: none
  bool may_be_partial = false;      ///< less than half of the model may match, and entries may be left over
};

/// The file in a run folder that names the weights which the run started from, such as
/// {"path": "/data/resnet18.pth", "partial": false}. The path is absolute. A run from random weights has no such file.
inline constexpr const char* kFirstWeightsFile = "first_weights.json";

/// Copies the matching weights of load_weights(path) into the model's parameters and buffers, and reports the rest.
/// Weights that fill one part of the model ("backbone"), with nothing left over, may be less than half of it.
/// Throws: DataError if nothing matches, if the file has no weights, or if the task rejects them. Without
///         `may_be_partial` also if less than half of the model's elements match, or if some parameters keep their
///         random weights while the file has entries that the model lacks.
void start_from_weights(Task& task, const NamedTensors& model, const FirstWeights& from);

}  // namespace lockstep

#pragma GCC visibility pop
