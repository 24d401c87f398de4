// SPDX-License-Identifier: Apache-2.0
// The number of ranks of a node where the user does not set it.
#pragma once

#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// How many ranks to start here, and why.
struct ProcessCount {
  int count = 1;       ///< the number
  std::string reason;  ///< one clause: "2 GPUs are visible", "no GPU is visible; 8 CPUs may be used"
};

/// Returns how many GPUs this process may use: CUDA_VISIBLE_DEVICES where it is set, else /dev/nvidia[0-9]+.
[[nodiscard]] int count_gpus();

/// Returns how many CPUs this process can keep busy, by its affinity and the quota of its control group.
[[nodiscard]] int count_cpus();

/// Reads "3", "gpu", "cpu" or "auto" (GPUs, else CPUs). Throws: UsageError for anything else, or for "gpu" where there
/// is none.
[[nodiscard]] ProcessCount resolve_process_count(const std::string& text);

}  // namespace lockstep

#pragma GCC visibility pop
