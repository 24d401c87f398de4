// SPDX-License-Identifier: Apache-2.0
// Computes the digest of a checkpoint state by state. docs/formats/checkpoint.md defines it.
#pragma once

#include <string>

#include "checkpoint/formats/sha256.h"
#include "lockstep/tensor/state_dict.h"

namespace lockstep::checkpoint {

class StateHash {
 public:
  /// Adds a state. Add each state once, in name order; its tensors are row-major on the CPU, as read from files.
  void add(const std::string& name, const StateDict& state);
  /// Returns 64 hexadecimal digits; nothing may be added afterwards.
  [[nodiscard]] std::string hex() { return hash_.hex(); }

 private:
  Sha256 hash_;
};

}  // namespace lockstep::checkpoint
