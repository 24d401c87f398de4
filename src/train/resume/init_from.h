// SPDX-License-Identifier: Apache-2.0
// Whether a run starts from a checkpoint or from the weights of another.
#pragma once

#include "lockstep/train/first_weights.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {

/// Throws: UsageError where the options name both a checkpoint to resume from and weights to start from. `resume: auto`
///         is allowed with weights, as it may find no checkpoint.
void require_one_start(const TrainerOptions& options);

}  // namespace lockstep::train
