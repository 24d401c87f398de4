// SPDX-License-Identifier: Apache-2.0
// A test's order to the fake NCCL: LOCKSTEP_DOUBLE_FAULT=rank=1,call=20,fault=hang.
#pragma once

#include <string>

namespace lockstep::testing::nccl_double {

constexpr int kInit = -1;  ///< call=init: ncclCommInitRankConfig

/// The values of `what`. error: the call reports an error and never completes. hang: the call never completes. die: the
/// call kills the process. slow: this call and all later calls take 100 ms longer. stuck: the call reports an error and
/// ncclCommAbort does not return. full: the call's thread returns after ncclCommAbort, as with a full GPU queue. lost:
/// die, and an error on all other ranks.
struct Order {
  int call = 0;  ///< number of the call, counted from 0 over all communicators of the rank
  std::string what = {};
};

/// Returns the order for this process, by its RANK.
[[nodiscard]] const Order& order();

/// Ends the process: the program has broken one of NCCL's rules.
[[noreturn]] void end_for(const std::string& rule);

}  // namespace lockstep::testing::nccl_double
