// SPDX-License-Identifier: Apache-2.0
// A save whose values are not finite is refused.
#pragma once

#include "checkpoint/save/staging.h"
#include "lockstep/base/error.h"

namespace lockstep::checkpoint {

/// A save was refused because its values are not finite.
class NotFiniteError : public DataError {
 public:
  using DataError::DataError;
};

/// Looks at what is to be saved: the saver's copy, in the saver's thread.
/// Cost: one pass over the floating tensors of model, optimizer and average.
/// Throws: NotFiniteError naming the first entry that is spoilt, where FiniteCheck requires it.
void require_finite(const Content& content);

}  // namespace lockstep::checkpoint
