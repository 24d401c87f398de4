// SPDX-License-Identifier: Apache-2.0
// The parts of a batch's loss: their sum, for training, and the row of values for display.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "lockstep/train/task.h"

namespace lockstep::train {

/// Returns the sum of the parts. Throws: UsageError if there are no parts, or for a part that is not one
/// number.
[[nodiscard]] at::Tensor total_loss(const std::vector<LossTerm>& terms);

/// Returns [loss], or [loss, part, part, ...] if there are several parts, without the autograd graph.
[[nodiscard]] at::Tensor loss_row(const at::Tensor& total, const std::vector<LossTerm>& terms);

/// Returns the names of the parts, the remaining columns of loss_row(); empty if there is only one part.
[[nodiscard]] std::vector<std::string> loss_names(const std::vector<LossTerm>& terms);

/// Checks the names, because ranks whose rows differ in length would wait for each other forever.
/// Throws: UsageError naming a part that only this batch or only the previous batch has.
void require_same_names(const std::vector<std::string>& before, const std::vector<std::string>& now);

}  // namespace lockstep::train
