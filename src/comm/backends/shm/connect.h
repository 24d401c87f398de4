// SPDX-License-Identifier: Apache-2.0
// How the ranks of one host come to share a segment: rank 0 hands its memfd out over Unix sockets, which then stay
// open; end of file on one is the notice of a rank's death.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "comm/backends/shm/segment.h"
#include "comm/core/failure.h"
#include "lockstep/base/file_system.h"

namespace lockstep::comm {

/// The result of the handshake: the mapping, and the sockets that report deaths.
struct ShmConnection {
  struct Peer {
    int rank = 0;
    UniqueFd socket;
  };
  std::shared_ptr<Segment> segment;
  std::vector<Peer> peers;  ///< on rank 0 all other ranks; else only rank 0
};

/// Connects the ranks of a host.
/// Collective: yes; every rank of the world, all on this host.
/// Throws: ResourceError where this rank cannot take part (no memory, another network namespace); the other ranks then
///         throw too, with its reason. TimeoutError naming the ranks that did not come.
[[nodiscard]] ShmConnection connect_shm(const World& world, std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
