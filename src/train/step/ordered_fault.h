// SPDX-License-Identifier: Apache-2.0
// A wrong number on order, by LOCKSTEP_FAULT: imitates a bad processor or memory, to test the guard.
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

/// "flip:WHAT:rank=R:step=K", then maybe ":always" and ":bit=B".
struct FaultOrder {
  std::string target = {};  ///< batch, weight, activation, gradient or optimizer
  int rank = 0;
  std::int64_t step = 1;
  bool always = false;  ///< from that step on; false: once, and not in a group that was started again
  int bit = -1;         ///< the bit of an element; -1: another one for each step
};

/// Throws: UsageError for other words.
[[nodiscard]] FaultOrder parse_fault(const std::string& text);

/// Flips one bit of one element. It belongs to the replica that has the turn. Without an order it does nothing.
class OrderedFault {
 public:
  explicit OrderedFault(const Job& job);

  /// Returns true if something will be flipped in `target`, at this step or later.
  [[nodiscard]] bool awaits(const char* target) const { return order_ && order_->target == target; }
  /// Flips a bit of one of `tensors`, on the CPU, if it is the order's turn.
  void strike(const char* target, const std::vector<at::Tensor>& tensors);
  void strike(const char* target, const NamedTensors& tensors);

 private:
  std::optional<FaultOrder> order_;  ///< none: there is no order for this rank
};

}  // namespace lockstep::train
