// SPDX-License-Identifier: Apache-2.0
// A test's order to the make-believe NCCL: LOCKSTEP_DOUBLE_FAULT=rank=1,call=20,fault=hang.
#pragma once

#include <string>

namespace lockstep::testing::nccl_double {

constexpr int kInit = -1;  ///< call=init: ncclCommInitRankConfig

/// `what` is error, hang, die, slow, stuck or full: the call reports an error and does not end; does not end; kills the
/// process; it and all later ones take 100 ms longer; it reports an error and ncclCommAbort does not return; its thread
/// returns after ncclCommAbort, as with a full queue of the GPU. lost: die, and an error on all other ranks.
struct Order {
  int call = 0;  ///< the rank's first is 0, counted over all of its communicators
  std::string what = {};
};

/// Returns the order for this process, by its RANK.
[[nodiscard]] const Order& order();

/// Ends the process: the program has broken a rule of NCCL.
[[noreturn]] void end_for(const std::string& rule);

}  // namespace lockstep::testing::nccl_double
