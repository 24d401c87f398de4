// SPDX-License-Identifier: Apache-2.0
// A fresh run that starts from the weights of another: what fits by name and shape is taken, the rest is listed.
#pragma once

#include <filesystem>

#include "lockstep/tensor/named_tensors.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {

/// Throws: UsageError where the options name both a checkpoint to go on from and weights to start from; `resume: auto`
/// goes together with them, as it may find none.
void require_one_start(const TrainerOptions& options);

/// Copies what fits of load_weights(where) into the model, and says what did not.
/// Throws: DataError where nothing fits, the file is none of weights, or the task takes none of its kind.
void start_from_weights(Task& task, const NamedTensors& model, const std::filesystem::path& where);

}  // namespace lockstep::train
