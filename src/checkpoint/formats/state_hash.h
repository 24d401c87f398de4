// SPDX-License-Identifier: Apache-2.0
// The digest of a checkpoint, computed state by state. The grammar is docs/formats/checkpoint.md.
#pragma once

#include <string>

#include "checkpoint/formats/sha256.h"
#include "lockstep/tensor/state_dict.h"

namespace lockstep::checkpoint {

class StateHash {
 public:
  /// States come in name order, each once; their tensors are row-major on the CPU, as read from files.
  void add(const std::string& name, const StateDict& state);
  /// Returns 64 hexadecimal digits; nothing may be added afterwards.
  [[nodiscard]] std::string hex() { return hash_.hex(); }

 private:
  Sha256 hash_;
};

}  // namespace lockstep::checkpoint
