// SPDX-License-Identifier: Apache-2.0
// Ranks that each have a fake GPU, connected by the fake NCCL. A test of these ranks, in a separate program (OWN_MAIN)
// that links lockstep_make_believe_gpus and has ranks.cpp and register.cpp among its SOURCES:
//
//   TEST(Double, Sums) {
//     run_ranks(current_test(), [](Job& job) {
//       const at::Tensor ones = at::ones({3}, job.device());
//       job.group().all_reduce(ones).wait();
//       EXPECT_THAT(found_races(), IsEmpty());
//     }, ranks_on_gpus(2));
//   }
#pragma once

#include <map>
#include <string>
#include <vector>

#include "support/run_ranks.h"

namespace lockstep::testing {

/// The options for `world` ranks on one host, each with a GPU. In `env`, LOCKSTEP_DOUBLE_DELAY_US delays copies and
/// collectives; LOCKSTEP_DOUBLE_FAULT is a fault from support/double/nccl/order.h.
[[nodiscard]] RanksOptions ranks_on_gpus(int world, std::map<std::string, std::string> env = {});

/// Returns how often this rank has replayed a graph.
[[nodiscard]] int found_replays();

/// Returns this rank's GPU accesses since the last call that lacked a required wait.
[[nodiscard]] std::vector<std::string> found_races();

}  // namespace lockstep::testing
