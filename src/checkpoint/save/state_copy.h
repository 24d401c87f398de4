// SPDX-License-Identifier: Apache-2.0
// A copy of a state in memory that is used again: the tensors of one save are those of the next.
#pragma once

#include <map>
#include <string>

#include "lockstep/checkpoint/async_saver.h"

namespace lockstep::checkpoint {

/// The memory of a state's copy. It belongs to one thread at a time.
class StateCopy {
 public:
  /// Allocates and touches memory for all tensors of `parts`, so that a copy does not wait for the system.
  void reserve(const StateParts& parts);

  /// Returns a copy of `parts`: on the CPU, dense, in the same layout. Valid until the next take() or reserve().
  /// Blocks: until the devices have delivered.
  const StateParts& take(const StateParts& parts);

 private:
  at::Tensor& room_for(const std::string& key, const at::Tensor& tensor);

  std::map<std::string, at::Tensor> memory_;  ///< by "state/entry"
  StateParts copy_;
};

}  // namespace lockstep::checkpoint
