// SPDX-License-Identifier: Apache-2.0
// Gives the ranks of one host a shared segment: rank 0 sends its memfd over Unix sockets, which stay open. End of file
// on a socket shows that the rank has died.
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
  std::vector<Peer> peers;  ///< all other ranks on rank 0; only rank 0 on other ranks
};

/// Connects the ranks of a host.
/// Collective: yes; every rank of the world, all on this host.
/// Throws: ResourceError if this rank cannot take part (no memory, another network namespace); the other ranks then
///         throw too, with its reason. TimeoutError naming the missing ranks.
[[nodiscard]] ShmConnection connect_shm(const World& world, std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
