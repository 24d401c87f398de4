// SPDX-License-Identifier: Apache-2.0
// One training step of a recipe's network on random input: forward, loss, backward with reduction, optimizer.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/comm/job.h"

namespace lockstep::worker {

struct StepBench {
  std::int64_t batch = 64;   ///< images per replica
  int replicas = 0;          ///< 0: one per rank
  bool exact = true;         ///< the same bits on any number of ranks
  std::string amp = "none";  ///< none, bf16
  bool channels_last = true;
  bool fused_layers = true;  ///< lockstep::nn::optimize()
  std::string model = "conv7";
  bool zero = false;           ///< each rank updates its part of the parameters (ZeRO-1)
  bool cuda_graph = false;     ///< forward and backward recorded and replayed
  bool recorder_cost = false;  ///< compares steps with and without flight recorder and step report
  std::int64_t repeats = 7;
  bool json = false;
};

/// Collective: yes. Prints on rank 0.
int run_step_bench(Job& job, const StepBench& bench);

}  // namespace lockstep::worker
