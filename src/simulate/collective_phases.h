// SPDX-License-Identifier: Apache-2.0
// The messages of a collective in the backends of comm: docs/design/network.md and shm.md have the algorithms.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/simulate/cluster.h"
#include "lockstep/simulate/workload.h"

namespace lockstep::simulate {

/// The ranks that take part in a phase.
enum class Among {
  kAll,            ///< every rank sends a message to every other
  kLeaders,        ///< every machine's first rank sends one to every other machine's
  kRoot,           ///< rank 0 sends one to every other rank
  kRootOfLeaders,  ///< rank 0 sends one to every other machine's first rank
  kHost,           ///< the ranks of a machine meet, and work on memory
  kDevices         ///< NCCL: all ranks, in a ring or in trees
};

struct Phase {
  Among among = Among::kAll;
  std::int64_t bytes =
      0;  ///< size of each message; kHost: bytes reduced in shared memory; kDevices: size of the collective
  std::int64_t copied = 0;  ///< kHost: bytes that each rank copies besides
  int distance = 0;         ///< kAll, kLeaders: each sends only to the one that far before it; 0: to every other one
  CallKind kind = CallKind::kAllReduce;  ///< kDevices
};

/// Returns the phases of `call` in their order; none on one rank. A phase begins on a rank when the rank has ended the
/// one before.
[[nodiscard]] std::vector<Phase> phases_of(const Call& call, const Cluster& cluster);

}  // namespace lockstep::simulate
