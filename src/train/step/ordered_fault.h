// SPDX-License-Identifier: Apache-2.0
// OrderedFault: corrupts a number as directed by LOCKSTEP_FAULT, to test the guard. It imitates a faulty processor or
// faulty memory.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/tensor/named_tensors.h"

namespace lockstep::train {

/// A fault as in "flip:WHAT:rank=R:step=K", optionally with ":always" and ":bit=B".
struct FaultOrder {
  std::string target = {};  ///< batch, weight, activation, gradient or optimizer
  int rank = 0;
  std::int64_t step = 1;
  bool always = false;  ///< if true, at every step from `step` on; otherwise once, and not after a restart
  int bit = -1;         ///< the bit of an element; -1 means a different bit for each step
};

/// Parses the fault in `text`. Throws: UsageError if `text` is not a valid fault.
[[nodiscard]] FaultOrder parse_fault(const std::string& text);

/// Flips one bit of one element; without an order it does nothing. It belongs to the replica whose turn it is.
class OrderedFault {
 public:
  explicit OrderedFault(const Job& job);

  /// Returns true if a bit of `target` will be flipped, at this step or later.
  [[nodiscard]] bool awaits(const char* target) const { return order_ && order_->target == target; }
  /// Flips a bit of one of `tensors` if the order is for this step.
  void strike(const char* target, const std::vector<at::Tensor>& tensors);
  void strike(const char* target, const NamedTensors& tensors);

 private:
  std::optional<FaultOrder> order_;  ///< the order for this rank, if there is one
};

}  // namespace lockstep::train
