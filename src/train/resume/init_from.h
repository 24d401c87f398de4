// SPDX-License-Identifier: Apache-2.0
// Rejects options that name both a checkpoint to resume from and weights to start from.
#pragma once

#include "lockstep/train/first_weights.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {

/// Throws: UsageError if the options name both a checkpoint to resume from and weights to start from. `resume: auto` is
///         allowed with weights, because it may find no checkpoint.
void require_one_start(const TrainerOptions& options);

}  // namespace lockstep::train
