// SPDX-License-Identifier: Apache-2.0
// Rejects a save whose values are not finite.
#pragma once

#include "checkpoint/save/staging.h"
#include "lockstep/base/error.h"

namespace lockstep::checkpoint {

/// The error of a save that was rejected because its values are not finite.
class NotFiniteError : public DataError {
 public:
  using DataError::DataError;
};

/// Checks the content of a save; for an AsyncSaver this is its copy, on its thread.
/// Cost: one pass over the floating-point tensors of model, optimizer and weight average.
/// Throws: NotFiniteError naming the first entry with wrong values, if FiniteCheck requires it.
void require_finite(const Content& content);

}  // namespace lockstep::checkpoint
