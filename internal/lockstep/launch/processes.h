// SPDX-License-Identifier: Apache-2.0
// Chooses the number of ranks on a node if the user does not set it.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/cuda_library.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The number of ranks to start on this node, and the reason.
struct ProcessCount {
  int count = 1;       ///< the number
  std::string reason;  ///< one clause: "2 GPUs are visible", "no GPU is visible; 8 CPUs may be used"
};

/// A machine's resources for ranks.
struct RankPlaces {
  int gpus = 0;                  ///< number of visible GPUs
  cuda::Obstacle obstacle = {};  ///< reason why ranks cannot compute on the GPUs; none: they can
  int cpus = 1;                  ///< number of CPUs that a process can keep busy
  std::string cpu_words = {};    ///< description of that number: "8 usable CPUs"
};

/// Returns how many GPUs this process may use: the GPUs in CUDA_VISIBLE_DEVICES if it is set, else in /dev. Each GPU
/// slice (MIG) in the list counts as a GPU.
[[nodiscard]] int count_gpus();

/// Returns how many CPUs this process can keep busy, given its affinity and the quota of its control group.
[[nodiscard]] int count_cpus();

/// Reads "3", "gpu", "cpu" or "auto": GPUs if ranks can compute on them, else CPUs. It is a pure function.
/// Throws: UsageError for any other text, and for "gpu" if ranks cannot use a GPU.
[[nodiscard]] ProcessCount choose_process_count(const std::string& text, const RankPlaces& places);

/// Returns the number of training ranks if the user does not give one: one for each GPU, else one. It is a pure
/// function.
[[nodiscard]] ProcessCount choose_training_count(const RankPlaces& places);

/// Returns `count` if `replicas` is enough for at least one replica per process; otherwise, one process per replica. If
/// `replicas` is 0, the number of replicas follows that of processes, and `count` is returned. It is a pure function.
[[nodiscard]] ProcessCount limit_to_replicas(const ProcessCount& count, std::int64_t replicas);

/// Returns this machine's resources.
[[nodiscard]] RankPlaces find_places();

/// Returns choose_process_count() on this machine.
[[nodiscard]] ProcessCount resolve_process_count(const std::string& text);

}  // namespace lockstep

#pragma GCC visibility pop
