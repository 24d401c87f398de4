// SPDX-License-Identifier: Apache-2.0
// A fresh run that starts from the weights of another: what fits by name and shape is taken, the rest is listed.
#pragma once

#include <filesystem>

#include "lockstep/tensor/named_tensors.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {

/// Throws: UsageError where the options name both a checkpoint to resume from and weights to start from. `resume: auto`
///         is allowed with weights, as it may find no checkpoint.
void require_one_start(const TrainerOptions& options);

/// Copies the matching weights of load_weights(where) into the model, and reports the rest.
/// Throws: DataError where nothing matches, the file has no weights, or the task refuses them.
void start_from_weights(Task& task, const NamedTensors& model, const std::filesystem::path& where);

}  // namespace lockstep::train
