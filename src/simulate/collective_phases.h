// SPDX-License-Identifier: Apache-2.0
// The messages of a collective in the backends of comm; docs/design/network.md and shm.md describe the algorithms.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/simulate/cluster.h"
#include "lockstep/simulate/workload.h"

namespace lockstep::simulate {

/// The ranks that take part in a phase.
enum class Among {
  kAll,            ///< every rank sends a message to every other rank
  kLeaders,        ///< every machine's first rank sends a message to every other machine's first rank
  kRoot,           ///< rank 0 sends a message to every other rank
  kRootOfLeaders,  ///< rank 0 sends a message to every other machine's first rank
  kHost,           ///< the ranks of a machine meet and work on shared memory
  kDevices         ///< all ranks, over NCCL in a ring or in trees
};

struct Phase {
  Among among = Among::kAll;
  std::int64_t bytes =
      0;  ///< size of each message; kHost: bytes reduced in shared memory; kDevices: size of the collective
  std::int64_t copied = 0;  ///< kHost: bytes that each rank also copies
  int distance = 0;         ///< kAll, kLeaders: each rank sends only to the rank this far before it; 0: to all others
  CallKind kind = CallKind::kAllReduce;  ///< kDevices: the collective
};

/// Returns the phases of `call` in order; none on one rank. A rank begins a phase when it has finished the previous
/// phase.
[[nodiscard]] std::vector<Phase> phases_of(const Call& call, const Cluster& cluster);

}  // namespace lockstep::simulate
